// Keeps the order with the smallest live peak: the input order or one of four topological orders built for
// it.
//
//   * LPMF: least peak memory first. Among the ready nodes that fit below the highest peak so far (at first
//     the bytes that live at the end), takes the one that leaves the fewest bytes alive. If none fits, does
//     the same among the smallest nodes.
//   * BFS: nodes in the order in which their predecessors ran.
//   * DFS: depth first from each node, the lightest first, its predecessors likewise.
//   * DFS back: the same from the nodes without users only.
//
// Source: PyTorch, torch/_inductor/memory.py, reorder_for_peak_memory (2024, #134874), which tries the first
// three, so the result is never worse than its result. The peak is exact (memory_model.h): births before
// deaths, outputs kept, in-place reuse counted. Ties go to the first in the list input, LPMF, BFS, DFS, DFS
// back. Communication counts only through its dependencies, so this pass belongs before overlap passes.
// O(n log n).
#pragma once

#include <string_view>

#include "passes/pass.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct ReorderForPeakMemory {
  static constexpr std::string_view kName = "reorder_for_peak_memory";
  static constexpr std::string_view kDescription = "picks the order with the smallest live peak of five";

  bool run(ir::Schedule& schedule, PassContext& context);
};

}  // namespace braid::passes
