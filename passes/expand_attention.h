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
// elements.
//
// The scores of batch b elements with h key heads each take p = heads sharing a key head * queries * padded keys elements per key head. Parts
// of the batch, and then of the key heads, have no more than `score_bytes` allows: with m = score_bytes / bytes of a score, there are
//
//   elements of the batch at once  max(1, floor(m / (h p)))      key heads at once  max(1, floor(m / p))
//
// at the dimensions of a step, so that short sequences are one part and the others are empty. A part's scores are at most max(m, p) elements,
// which is what is planned. There are at most kMostParts parts; more memory is planned where that is too few. Attention
// in regions, or into memory of others, is not divided.
//
// Behind lower_precision, which narrows attention as one operation, and before fusion, so that the loops are fused like any others.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/schedule.h"
#include "passes/pass.h"

namespace braid::passes {

struct ExpandAttention {
  static constexpr std::string_view kName = "expand_attention";
  static constexpr std::string_view kDescription = "makes products and loops of attention";

  std::int64_t score_bytes = std::int64_t{48} << 20;  // what the second-level cache of a large GPU holds

  static std::vector<PassOption<ExpandAttention>> options() {
    return {{"score_bytes", &ExpandAttention::score_bytes, "longer scores are stored part by part"}};
  }
  bool run(ir::Schedule& schedule) const;
};

}  // namespace braid::passes
