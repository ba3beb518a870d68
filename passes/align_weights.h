// Stores constant right operands of products as the matrix library reads them at once.
//
//   before                                        after
//     constant %w: f16[768, 50257]                  constant %w.rows: f16[50257, 768]
//     y = gemm x, %w                                y = gemm x, transpose(%w.rows)
//
// Contract
//   1. Only constants of f32, f16 and bf16 whose bytes are known change. Their rows do not begin at multiples
//      of 16 bytes, or their elements are not adjacent in any direction. The new rows run along the summed
//      dimension.
//   2. Products that read the same constant in the same way share the new one.
// Runs after all passes that make products or change the types of their operands.
#pragma once

#include <string_view>

#include "ir/schedule.h"

namespace braid::passes {

struct AlignWeights {
  static constexpr std::string_view kName = "align_weights";
  static constexpr std::string_view kDescription = "stores constant operands of products in aligned rows";
  bool run(ir::Schedule& schedule) const;
};

}  // namespace braid::passes
