// Moves each wait down past compute that can hide its collective, within a budget of live bytes. The wait
// takes along its release and the nodes that need it at once. The mirror image of
// reorder_communication_preserving_peak_memory.
//
// Source: PyTorch, torch/_inductor/comms.py, sink_waits_iterative (third generation, 2025), with its known
// faults corrected: exposure decides in all cases, with the right sign; last uses are exact after every swap;
// one budget holds for the whole run.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "passes/pass.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct SinkWaitsIterative {
  static constexpr std::string_view kName = "sink_waits_iterative";
  static constexpr std::string_view kDescription =
      "sinks waits with what needs them, within a budget of live bytes";

  double budget = 0.2;
  double extra_overlap = 0.5;
  bool swap_with_collectives = false;
  std::int64_t max_group = 64;

  static std::vector<PassOption<SinkWaitsIterative>> options() {
    using P = SinkWaitsIterative;
    return {{"budget", &P::budget, "growth of the live peak allowed to all passes of the run; 0.2: a fifth"},
            {"extra_overlap", &P::extra_overlap,
             "a wait stops when its collective is covered by this much more than its cost"},
            {"swap_with_collectives", &P::swap_with_collectives,
             "waits may go past the starts of other collectives"},
            {"max_group", &P::max_group, "how many nodes a wait may take along"}};
  }
  bool run(ir::Schedule& schedule, PassContext& context);
};

}  // namespace braid::passes
