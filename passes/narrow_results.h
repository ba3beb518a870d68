// Lets products of f16 or bf16 store a result in that type if all readers round it to that type.
//
//   before                                        after
//     y: f32 = gemm x, w     (x, w: f16)            y: f16 = gemm x, w
//     a: f16 = pointwise { cast f16 (load y) }      a: f16 = pointwise { load y }
//     b: f16 = pointwise { cast f16 (load y[..]) }  b: f16 = pointwise { load y[..] }
//
// Why: products under --precision have f32 results. FuseEpilogues moves a single cast into the product. Where
// several loops read the result, or slices of it, it was written and read in f32.
//
// Contract
//   1. Only loops load the result, and only to cast it to the type of the operands. Values are rounded once,
//      as before: all bits stay.
//   2. Only products without an epilogue. The matrix library adds a bias only in the type of the result, so
//      an f32 bias would become a loop.
//   3. Results are whole activations that only this product writes. Their rows are multiples of kRowUnit
//      bytes in the narrow type too.
// Runs after merge_products and before fuse_epilogues.
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
