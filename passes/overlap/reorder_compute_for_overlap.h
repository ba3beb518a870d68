// Puts compute nodes that a collective does not need between it and the next one.
//
// First generation (torch/_inductor/comms.py, 2023), over all dependencies. What collective 0 needs, and
// collective 0; then for each next collective k:
//   1. what k needs and does not depend on collective k-1; its cost counts, with what was left over from
//   before
//   2. while that is less than the cost of k-1: nodes that are ready now (a snapshot) and do not depend on
//   k-1, those that an
//      early collective needs first, then in input order; a node whose half does not fit into what remains is
//      skipped
//   3. whatever else k needs
//   4. collective k. Compute of step 2 beyond the cost counts for k+1 if step 3 was empty
// At last what is left, in input order. Needs the collectives in one chain: with another channel policy than
// global the order of the input is kept as if it were. Near-linear.
#pragma once

#include <string_view>

#include "passes/pass.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct ReorderComputeForOverlap {
  static constexpr std::string_view kName = "reorder_compute_for_overlap";
  static constexpr std::string_view kDescription =
      "fills the time of each collective with independent compute";

  bool run(ir::Schedule& schedule, PassContext& context);
};

}  // namespace braid::passes
