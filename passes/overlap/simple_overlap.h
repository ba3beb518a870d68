// Starts up, waits down, by swaps of neighbours that never raise the peak of live bytes. Looks at no costs.
//
// Each start goes up until it meets something that it needs, another collective, or memory; then each wait,
// with the release behind it, goes down until it meets its first user, another wait, or memory (PyTorch, June
// 2026). What communicates is told by effects and not by type: nothing goes past a kernel whose effects are
// unknown. Near-linear.
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
