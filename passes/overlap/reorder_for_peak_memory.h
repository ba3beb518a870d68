// Four topological orders that try to keep little alive, and the input order; the one with the smallest live
// peak stays.
//
//   LPMF      least peak memory first: among the ready nodes that fit below the highest peak so far (at first
//             what lives at the end), the one that leaves the least behind; if none fits, of the smallest
//             ones the one that leaves the least behind
//   BFS       nodes in the order in which their predecessors ran
//   DFS       depth first from each node, cheap ones first, what it needs likewise
//   DFS back  the same from the nodes without users only
//
// The first three are those of torch/_inductor/memory.py, so the result is never worse than its own, by the
// exact peak (memory_model.h): births before deaths, outputs kept, in-place reuse counted. On a tie the
// earlier in the list input, LPMF, BFS, DFS, DFS back. It knows nothing of communication but dependencies: it
// belongs in front of overlap passes. O(n log n).
#pragma once

#include <string_view>

#include "passes/pass.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct ReorderForPeakMemory {
  static constexpr std::string_view kName = "reorder_for_peak_memory";
  static constexpr std::string_view kDescription = "the order with the smallest live peak of five";

  bool run(ir::Schedule& schedule, PassContext& context);
};

}  // namespace braid::passes
