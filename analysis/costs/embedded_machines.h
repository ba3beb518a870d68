// The files of analysis/costs/machines, as the build wrote them into the library (analysis/CMakeLists.txt).
#pragma once

#include <span>
#include <string_view>

namespace braid::analysis {

struct EmbeddedMachine {
  std::string_view name;  // file name without .json
  std::string_view json;
};
std::span<const EmbeddedMachine> embedded_machines();

}  // namespace braid::analysis
