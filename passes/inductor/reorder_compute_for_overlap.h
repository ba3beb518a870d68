// Puts compute nodes that a collective does not need between it and the next one.
//
// Source: PyTorch, torch/_inductor/comms.py, reorder_compute_for_overlap (first generation, 2023), here over
// all dependencies. First come the nodes that collective 0 needs, and collective 0; then for each next
// collective k:
//   1. nodes that k needs and that do not depend on collective k-1; their cost counts, with the cost rolled
//      over
//   2. while that is less than the cost of k-1: nodes that are ready and do not depend on k-1, first those
//      that an early collective needs, then in input order; a node is skipped if at most half of it fits into
//      the remaining cost
//   3. all other nodes that k needs
//   4. collective k. If step 3 was empty, the cost of all nodes of step 2 is rolled over to k+1
// The remaining nodes come last, in input order.
//
// The rule of step 4 is the source's and counts compute twice: compute that hides k-1 cannot hide k as well,
// since the two take turns on one channel. With `surplus_only` only the cost beyond that of k-1 is rolled
// over.
//
// Requires that the collectives form one chain: under a channel policy other than global, the input order of
// the collectives is kept as if it were a chain. O((nodes + dependencies) log nodes).
#pragma once

#include <string_view>
#include <vector>

#include "passes/pass.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct ReorderComputeForOverlap {
  static constexpr std::string_view kName = "reorder_compute_for_overlap";
  static constexpr std::string_view kDescription =
      "fills the time of each collective with independent compute";

  bool surplus_only = false;

  static std::vector<PassOption<ReorderComputeForOverlap>> options() {
    return {{"surplus_only", &ReorderComputeForOverlap::surplus_only,
             "only compute beyond the cost of a collective counts for the next one"}};
  }
  bool run(ir::Schedule& schedule, PassContext& context);
};

}  // namespace braid::passes
