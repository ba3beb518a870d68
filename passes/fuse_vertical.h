// Fuses producer and consumer loops over a common outer space into one node.
//
//   before                                   after
//     m = reduction max x  [B] over [S]        fused { m = reduction max x
//     e = pointwise exp(x - m)  [B, S]                 e = pointwise exp(x - m)
//     s = reduction sum e  [B] over [S]                s = reduction sum e
//     y = pointwise e / s  [B, S]                      y = pointwise e / s }
//
// Softmax is one node, and so is layer norm (mean, variance, normalise). ir/fused_loops.h defines fused nodes
// and when they are legal. Buffers local to a fused node need no arena (`ir::local_buffers`).
//
// Contract
//   1. Only loops, top-level single and fused nodes; a group stays as it is.
//   2. The consumer reads something that the producer writes, at the same outer point. No path leads from one
//      to the other through a third node. One of them moves next to the other; nothing else moves.
//   3. The common outer space is worth running in parallel: it has at least `min_outer` points (at the upper
//      bound), or little work per point.
//   4. Rows that pass between members stay below `max_row_bytes`, the node below `max_members`.
//   5. Loops over another factorisation of the space ([B*S, 768] and [B, S, 768]) are rewritten over the
//      finer one.
//   6. A product of matrices or a convolution written as a loop (ir/contraction.h) stays alone if its sums
//      have more than `most_terms` terms. In a fused node an outer point would compute all its columns, and
//      no two points could share their loads.
//   7. `keep_overlap`: nothing moves past the wait of a collective.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ir/id_vector.h"
#include "ir/schedule.h"
#include "passes/pass.h"

namespace braid::passes {

struct FuseVertical {
  static constexpr std::string_view kName = "fuse_vertical";
  static constexpr std::string_view kDescription =
      "fuses producer and consumer loops over a common outer space";

  std::int64_t max_members = 32;
  std::int64_t min_outer = 8;
  std::int64_t small_inner = 8192;
  std::int64_t max_row_bytes = 256 * 1024;
  std::int64_t most_terms = 32;
  bool keep_overlap = true;

  static std::vector<PassOption<FuseVertical>> options() {
    return {{"max_members", &FuseVertical::max_members, "loops per node"},
            {"min_outer", &FuseVertical::min_outer, "fewest outer points of a node with much work per point"},
            {"small_inner", &FuseVertical::small_inner,
             "up to this many inner points the outer space may be smaller"},
            {"max_row_bytes", &FuseVertical::max_row_bytes, "longest row that passes between members"},
            {"most_terms", &FuseVertical::most_terms, "longest sum of products of two tensors in a node"},
            {"keep_overlap", &FuseVertical::keep_overlap, "move nothing behind the wait of a collective"}};
  }
  bool run(ir::Schedule& schedule) { return run(schedule, {}); }
  // Loops are fused only within one region: a number per operation of the graph; empty: one region.
  bool run(ir::Schedule& schedule, ir::IdSpan<ir::OpId, const int> region_of_op);
};

}  // namespace braid::passes
