// The parts of the verifier; see ir/verifier.h.
#pragma once

#include <fmt/format.h>

#include <set>

#include "ir/effects.h"
#include "ir/verifier.h"

namespace braid::ir {

// Rules, as violations name them.
inline constexpr std::string_view kStructure = "structure", kFlight = "flight", kRegions = "regions",
                                  kOrder = "order", kMemory = "memory";

class Violations {
 public:
  template <class... Args>
  void add(std::string_view rule, std::string_view node, fmt::format_string<Args...> format, Args&&... args) {
    list_.push_back({std::string(rule), std::string(node), fmt::format(format, std::forward<Args>(args)...)});
  }
  bool empty() const { return list_.empty(); }
  std::vector<Violation> take() { return std::move(list_); }

 private:
  std::vector<Violation> list_;
};

// These require a schedule whose structure is valid.
void verify_order(const Schedule& schedule, Violations& out);
void verify_memory(const Schedule& schedule, Violations& out);

}  // namespace braid::ir
