// Lets products whose result has rows at no multiple of 16 bytes store it in padded rows, which a loop copies to the result.
//
//   before                                        after
//     y: f16[n, 50257] output = gemm x, w           t: f16[n, 50264] = gemm x, w.padded
//                                                   y: f16[n, 50257] output = pointwise { load t[50264*i0 + i1] }
//
// Why: the matrix library has its fast kernels only for rows of D that begin at multiples of 16 bytes. Logits of GPT-2 have 50,257 columns.
//
// Contract
//   1. Products of f16 or bf16 by one constant matrix whose bytes are known, without an epilogue, in no region, of all of a result of the program whose
//      memory is its own. Results between operations are padded by merge_products, without a copy.
//   2. With the compute and memory times C and M of the product by the cost model, the bandwidth W, the launch L, R bytes of the result, all at the upper
//      bounds of the dimensions, a product is padded if
//
//        max(C, M) + L + 2 R / W  <  max(slowdown * C, M).
//
//   3. The columns in between are products with rows of zeros behind the weights, where those are stored as columns and nothing else lies in
//      their memory; then other readers of the weights go on reading them there. Otherwise the weights are stored again.
//   4. Longer results than `part_bytes` are made part by part of the first dimension, at most 64, as attention (passes/expand_attention.h).
// After merge_products, before align_weights.
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

  // Of a product with unaligned rows. An estimate: GPT-2's logits take 1.1 ms, of which 0.13 ms is the time of an aligned product.
  double slowdown = 4;
  std::int64_t part_bytes = std::int64_t{48} << 20;

  static std::vector<PassOption<PadResults>> options() {
    return {{"slowdown", &PadResults::slowdown, "of products whose results have unaligned rows"},
            {"part_bytes", &PadResults::part_bytes, "longer results are padded part by part"}};
  }
  bool run(ir::Schedule& schedule, PassContext& context) const;
};

}  // namespace braid::passes
