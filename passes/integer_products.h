// Products whose operands are 8-bit integers in wider clothes compute on the bytes.
//
//   before                                                 after
//     a = pointwise { cast i32 x  - cast i32 z }             s = constant, the sums of the columns of w
//     b = pointwise { cast i32 w }                           y : i32 = gemm x, w epilogue { acc - z * s[column] }
//     y : i32 = gemm a, b
//
//     a = pointwise { cast f32 (cast i32 x - z) * u }        y : f32 = gemm x, w epilogue { f32 (acc - z * s) * (u * v) }
//     b = pointwise { cast f32 w * v[column] }
//     y : f32 = gemm a, b
//
//     a = pointwise { ... round clip cast u8 -> q            q = pointwise { ... round clip cast u8 }
//                     cast i32 q - z }                       y = gemm q, w ...
//
// Why: processors multiply bytes four times as fast as f32, and weights stay bytes in memory.
//
// Contract
//   1. Structure decides, never names: an operand is a loop that subtracts a zero point from a value of 8 bits, which it loads
//      or computes, and may multiply by a scale. Zero points and scales may depend on what the product keeps (rows, columns,
//      batches, filters), never on what it sums over.
//   2. Sums of integers keep their bits: they wrap in i32 whatever the order, and the sums of rows and columns that stand for
//      zero points are integers too.
//   3. In f32 products (`float_products`) the integer sum is exact, as it cannot exceed i32, and is then rounded to f32 and
//      multiplied by the product of the scales once: the result differs from the f32 sum by its rounding. Only on targets
//      without a faster f32 product.
//   4. The sums of constant weights are constants. Constant weights of u8 become i8 if all of them minus their zero point fit.
//   5. A convolution that pads subtracts, by position, the sums of those weights that lie inside of the image. Its weights are
//      constant; a zero point of theirs that stays costs sums of windows, which a convolution with ones computes. Transposed ones stay.
//   6. An f32 product of rows that are not quantised by such constant weights reads the bytes and applies their scale to the
//      sum (`float_products`); its sums are those of f32 numbers.
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
