// Lets a loop read what a tensor is put together from, instead of the tensor: one loop for each part.
//
//   before                                        after
//     t[:, 0:4] = pointwise { -x[i0, i1 + 4] }      y[:, 0:4] = pointwise { x[i0, i1] - x[i0, i1 + 4] }
//     t[:, 4:8] = pointwise { x[i0, i1] }           y[:, 4:8] = pointwise { x[i0, i1 + 4] + x[i0, i1] }
//     y = pointwise { x[i0, i1] + t[i0, i1] }
//
// Why: a concatenation is a pass over memory, and a node cannot fuse its parts with a loop that reads all of
// them (ir/fused_loops.h). Rotary embeddings contain one: without it, they are one kernel.
//
// Contract
//   1. Writers and readers are top-level pointwise loops. The tensor is no result, and nothing else touches
//      it. The parts follow one another in one dimension, and each is written in order.
//   2. A reader reads the tensor at its own indices, with constant ones added in that dimension. One that is
//      cut writes its result in order, and nothing changes that result in place if it is a view.
//   3. The number of kernels does not grow, and at most `max_parts` parts are taken apart.
//   4. Values are rounded as they were in memory. Values that cost at least `min_flops`, or that are not read
//      in memory order, are not computed more often. Memory that is kept longer for the reader is at most
//      that of the tensor, or 64 KiB.
//   5. Nothing between a part and its reader overwrites what the part reads.
// Chains are followed: a result that was written in parts is such a tensor for its own readers.
#pragma once

#include <string_view>
#include <vector>

#include "ir/schedule.h"
#include "passes/pass.h"

namespace braid::passes {

struct ForwardParts {
  static constexpr std::string_view kName = "forward_parts";
  static constexpr std::string_view kDescription = "makes readers of a concatenation read its parts";

  std::int64_t max_parts = 4;
  std::int64_t min_flops = 10;

  static std::vector<PassOption<ForwardParts>> options() {
    return {{"max_parts", &ForwardParts::max_parts, "most parts of a tensor"},
            {"min_flops", &ForwardParts::min_flops, "cheaper values are computed for each reader"}};
  }
  bool run(ir::Schedule& schedule);
};

}  // namespace braid::passes
