// Lets a product whose result rows do not begin at multiples of 16 bytes store padded rows, which a loop
// copies to the result.
//
//   before                                   after
//     y: f16[n, 50257] output = gemm x, w      t: f16[n, 50264] = gemm x, w.padded
//                                              y: f16[n, 50257] output = pointwise { load t[50264*i0 + i1] }
//
// Why: the matrix library has its fast kernels only for rows of D that begin at multiples of 16 bytes. Logits
// of GPT-2 have 50,257 columns.
//
// Contract
//   1. Only products of f16 or bf16 by one constant matrix whose bytes are known, without an epilogue and
//      outside of regions. The product writes a whole result of the program that has its own memory.
//      merge_products pads results between operations, without a copy.
//   2. By the cost model the product takes the compute and memory times C and M; the bandwidth is W, the
//      launch takes L, and the result has R bytes, all at the upper bounds of the dimensions. A product is
//      padded if
//
//        max(C, M) + L + 2 R / W  <  max(slowdown * C, M).
//
//   3. The added columns are products with rows of zeros after the weights. If the weights are stored as
//      columns and nothing else lies in their memory, that memory is extended, and other readers of the
//      weights read them there. Otherwise the weights are stored again.
//   4. Results longer than `part_bytes` are computed in at most 64 parts of the first dimension, like
//      attention (passes/expand_attention.h).
// Runs after merge_products and before align_weights.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/schedule.h"
#include "passes/pass.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct PadResults {
  static constexpr std::string_view kName = "pad_results";
  static constexpr std::string_view kDescription =
      "stores results of products in padded rows, and copies them";

  // How much slower the compute of a product with unaligned rows is. An estimate: GPT-2's logits take 1.1 ms,
  // of which an aligned product would take 0.13 ms.
  double slowdown = 4;
  std::int64_t part_bytes = std::int64_t{48} << 20;

  static std::vector<PassOption<PadResults>> options() {
    return {{"slowdown", &PadResults::slowdown, "of products whose results have unaligned rows"},
            {"part_bytes", &PadResults::part_bytes, "longer results are padded part by part"}};
  }
  bool run(ir::Schedule& schedule, PassContext& context) const;
};

}  // namespace braid::passes
