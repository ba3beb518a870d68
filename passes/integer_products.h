// Computes products whose operands are 8-bit integers widened to i32 or f32 on the bytes themselves.
//
//   before                                             after
//     a = pointwise { cast i32 x  - cast i32 z }         s = constant, the sums of the columns of w
//     b = pointwise { cast i32 w }                       y : i32 = gemm x, w epilogue { acc - z * s[column] }
//     y : i32 = gemm a, b
//
//     a = pointwise { cast f32 (cast i32 x - z) * u }    y : f32 = gemm x, w epilogue {
//     b = pointwise { cast f32 w * v[column] }             f32 (acc - z * s) * (u * v) }
//     y : f32 = gemm a, b
//
//     a = pointwise { ... round clip cast u8 -> q        q = pointwise { ... round clip cast u8 }
//                     cast i32 q - z }                   y = gemm q, w ...
//
// Why: processors multiply bytes four times as fast as f32, and weights stay bytes in memory.
//
// Contract
//   1. An operand qualifies by its structure, never by its name. Its loop subtracts a zero point from an
//      8-bit value, which it loads or computes, and may multiply by a scale. Zero points and scales may
//      depend on the dimensions that the product keeps (rows, columns, batches, filters), never on the summed
//      one.
//   2. Sums of integers keep their bits: they wrap in i32 in any order, and the sums of rows and columns that
//      correct for zero points are integers too.
//   3. In f32 products (`float_products`) the integer sum is exact, as it cannot exceed i32. It is then
//      rounded to f32 and multiplied once by the product of the scales, so the result differs from the f32
//      sum only in rounding. Only for targets without a faster f32 product.
//   4. The sums of constant weights are constants. Constant u8 weights become i8 if all of them minus their
//      zero point fit.
//   5. A padded convolution subtracts, by position, the sums of those weights that lie inside of the image.
//      Its weights are constant. If they keep a zero point, sums of windows are needed, which a convolution
//      with ones computes. Transposed convolutions stay.
//   6. An f32 product of rows that are not quantised by such constant weights reads the bytes and applies
//      their scale to the sum (`float_products`); its sums are those of f32 numbers.
#pragma once

#include <string_view>
#include <vector>

#include "ir/schedule.h"
#include "passes/pass.h"

namespace braid::passes {

struct IntegerProducts {
  static constexpr std::string_view kName = "integer_products";
  static constexpr std::string_view kDescription = "computes products of quantised operands on their bytes";

  bool float_products = true;

  static std::vector<PassOption<IntegerProducts>> options() {
    return {{"float_products", &IntegerProducts::float_products,
             "also of dequantised operands, whose scales are then applied once, to the sum"}};
  }
  bool run(ir::Schedule& schedule, PassContext& context);
};

}  // namespace braid::passes
