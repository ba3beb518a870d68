// Spells attention out in products and loops, for targets without a kernel for it.
//
//   before                                      after
//     y = attention q, k, v scale s mask m        scores = gemm q, transposed k
//                                                 masked = pointwise s * scores + m
//                                                 most = reduction max masked
//                                                 raised = pointwise exp(masked - most)
//                                                 total = reduction sum raised
//                                                 weights = pointwise raised / total
//                                                 y = gemm weights, v
//
// Heads that share keys become a dimension of their own, over which keys and values do not move. Weights are rounded to the
// type of the values. Rows of scores and weights are padded to multiples of 16 bytes, the unit in which matrix libraries move
// elements. Behind lower_precision, which narrows attention as one operation, and before fusion, so that the loops are fused like any others.
#pragma once

#include <string_view>

#include "ir/schedule.h"

namespace braid::passes {

struct ExpandAttention {
  static constexpr std::string_view kName = "expand_attention";
  static constexpr std::string_view kDescription = "makes products and loops of attention";
  bool run(ir::Schedule& schedule) const;
};

}  // namespace braid::passes
