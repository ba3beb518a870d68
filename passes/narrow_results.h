// Lets products of f16 or bf16 store what all readers round to that type.
//
//   before                                        after
//     y: f32 = gemm x, w     (x, w: f16)            y: f16 = gemm x, w
//     a: f16 = pointwise { cast f16 (load y) }      a: f16 = pointwise { load y }
//     b: f16 = pointwise { cast f16 (load y[..]) }  b: f16 = pointwise { load y[..] }
//
// Why: products under --precision have f32 results. FuseEpilogues takes one cast into the product; where several loops read the result, or slices
// of it, it was written and read in f32.
//
// Contract
//   1. Every load of the result is in a loop that uses it only in casts to the type of the operands. Values are rounded once, as before: all bits stay.
//   2. Products without an epilogue: the matrix library adds a bias only in the type of the result, so that one of f32 would become a loop.
//   3. Results are whole activations of this product alone, and their rows multiples of kRowUnit bytes also in the narrow type.
// After merge_products, before fuse_epilogues.
#pragma once

#include <string_view>

#include "ir/schedule.h"

namespace braid::passes {

struct NarrowResults {
  static constexpr std::string_view kName = "narrow_results";
  static constexpr std::string_view kDescription =
      "stores results of products in the narrow type to which all readers round them";
  bool run(ir::Schedule& schedule) const;
};

}  // namespace braid::passes
