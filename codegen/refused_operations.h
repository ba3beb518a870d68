// The operations of a schedule that a target has no code for, in one message.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

#include "ir/error.h"

namespace braid::codegen {

class RefusedOperations {
 public:
  // Nothing if `why` is empty.
  void add(const std::string& node, const std::string& why) {
    if (why.empty()) return;
    if (lines_.empty()) first_.node = node;
    lines_.push_back(fmt::format("'{}': {}", node, why));
  }
  // Throws the user error if there are any.
  void report(int code, std::string_view target) const {
    if (lines_.empty()) return;
    ir::user_error(
        code, first_,
        fmt::format("the {} target does not support:\n    {}", target, fmt::join(lines_, "\n    ")),
        "compile for another target, load the plug-in that has the kernel, or rewrite these nodes");
  }

 private:
  ir::Location first_;
  std::vector<std::string> lines_;
};

}  // namespace braid::codegen
