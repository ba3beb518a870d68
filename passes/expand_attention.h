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
// Heads that share keys become a dimension of their own, along which keys and values have stride 0. Weights
// are rounded to the type of the values. Rows of scores and weights are padded to multiples of 16 bytes, the
// unit in which matrix libraries move elements.
//
// The scores of b batch elements with h key heads each take b h p elements. Here p is the number per key
// head: heads sharing a key head * queries * padded keys. `score_bytes` limits the scores alive at once, so
// the batch is divided into parts, and then the key heads. With m = score_bytes / bytes of a score, one part
// has
//
//   max(1, floor(m / (h p))) elements of the batch, and max(1, floor(m / p)) key heads.
//
// These are evaluated at the sizes of the running step: short sequences are one part, and the other parts are
// empty. A part's scores have at most max(m, p) elements, and that size is planned. There are at most
// kMostParts parts; where that is too few, more memory is planned. Attention in regions, or into memory of
// others, is not divided.
//
// Runs after lower_precision, which narrows attention as one operation, and before fusion, so that the loops
// are fused like any others.
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
