// Starts up, waits down, by swaps of neighbours that never raise the peak of live bytes. Ignores costs.
//
// Source: PyTorch, torch/_inductor, simple_overlap (third generation, June 2026, #184194, #184225, #184235),
// as these pull requests describe it. First each start goes up until it meets something that it needs,
// another collective, or the memory limit. Then each wait, with its release, goes down until it meets its
// first user, another wait, or the memory limit. Communication is recognised by effects and not by type:
// nothing goes past a kernel with unknown effects. Near-linear.
#pragma once

#include <string_view>

#include "passes/pass.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct SimpleOverlap {
  static constexpr std::string_view kName = "simple_overlap";
  static constexpr std::string_view kDescription =
      "starts up and waits down as long as the live peak does not grow";

  bool run(ir::Schedule& schedule, PassContext& context);
};

}  // namespace braid::passes
