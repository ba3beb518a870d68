// Moves each start up, with what it needs, past compute that can hide it, within a budget of live bytes.
//
// Source: PyTorch, torch/_inductor/comms.py, reorder_communication_preserving_peak_memory (third generation,
// 2025, #146562 and #160113), with its known faults corrected:
//   * collectives always keep their order (there, with the default options, gathers end up reversed);
//   * the walk that estimates exposure ends at the wait of a later collective on the same channel;
//   * lifetimes are exact after every swap, in-place reuse included (live_order.h);
//   * one budget holds for the whole run, not one for each pass;
//   * costs are always used: a collective that is covered with a margin stops.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "passes/pass.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct ReorderCommunicationPreservingPeakMemory {
  static constexpr std::string_view kName = "reorder_communication_preserving_peak_memory";
  static constexpr std::string_view kDescription =
      "raises starts with what they need, within a budget of live bytes";

  double budget = 0.2;         // of the live peak
  double extra_overlap = 0.5;  // of the collective's cost
  std::int64_t max_group = 64;

  static std::vector<PassOption<ReorderCommunicationPreservingPeakMemory>> options() {
    using P = ReorderCommunicationPreservingPeakMemory;
    return {{"budget", &P::budget, "growth of the live peak allowed to all passes of the run; 0.2: a fifth"},
            {"extra_overlap", &P::extra_overlap,
             "a collective stops when covered by this much more than its cost"},
            {"max_group", &P::max_group, "how many nodes a start may take along"}};
  }
  bool run(ir::Schedule& schedule, PassContext& context);
};

}  // namespace braid::passes
