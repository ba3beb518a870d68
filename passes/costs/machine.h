// The machine that costs are computed for.
#pragma once

#include <string>

namespace braid::passes {

struct Machine {
  std::string name;
};

inline constexpr const char* kDefaultMachine = "h100";

}  // namespace braid::passes
