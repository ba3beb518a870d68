// Computes products and convolutions of f32 values by constant f32 weights, and attention, in a narrower type
// where that pays.
//
//   before                                    after, type=bf16
//     constant %w: f32[8, 3]                    constant %w.bf16: bf16[8, 3]
//     %y: f32 = gemm %x, %w                     %x.bf16: bf16 = pointwise { cast bf16 (load %x) }
//                                               %y: f32 = gemm %x.bf16, %w.bf16
//
//                                             after, type=int8
//                                               constant %w.i8: i8[8, 3]   constant %w.scale: f32[3]
//                                               %x.largest: f32[m] = reduction max { abs(load %x) }
//                                               %x.i8: i8 = pointwise {
//                                                 cast i8 (round(load %x * (127 / largest))) }
//                                               %y: f32 = gemm %x.i8, %w.i8 epilogue {
//                                                 f32 acc * (largest / 127 * scale[column]) }
//
//                                             after, type=tf32
//                                               %y: f32 = gemm tf32 %x, %w
//
// A convolution has one scale per image and one per filter instead of one per row and one per column.
// Attention, in bf16 and f16, reads casts of query, key and value and stores its result in the type. Readers
// that are also narrow take that result as it is; other readers get a cast to f32.
//
// Contract
//   1. Sums, epilogues, softmax and everything else stay f32 (sums of i8: exact, i32). The roundings are
//      casts in the text, so interpreter and targets compute one program. Fusion may move a cast into the
//      loop or product that makes the values.
//   2. An operation is chosen if the cost model says that it takes less time, casts included, than in f32.
//      Two products of the same rows share the cast, but the cost counts it for each.
//   3. These stay in f32: operations inside regions; recurrent layers; operations for which the target has no
//      kernel. In bf16, f16 and int8 also operations whose weights are unknown at compile time or do not fit
//      the type, and products of more than one matrix; in int8, attention and transposed convolutions.
//   4. tf32: nothing is cast; the target may round operands of f32 when it multiplies them. The C++ target
//      does not.
//   5. int8: weights have one scale per column or filter. Rows or images have one scale each, computed when
//      the program runs. Zero points are 0, so padding is 0 too.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/schedule.h"
#include "passes/pass.h"

namespace braid::passes {

struct PrecisionChoice {
  ir::OpId op;
  std::string name;      // of the operation
  std::string reason;    // why it stays in f32; empty if it is chosen
  double us = 0;         // in f32, by the cost model
  double narrow_us = 0;  // with the cast
};

struct LowerPrecision {
  static constexpr std::string_view kName = "lower_precision";
  static constexpr std::string_view kDescription =
      "computes products, convolutions and attention in tf32, bf16, f16 or int8";

  std::string type = "bf16";
  bool always = false;
  bool convolutions = true, attention = true;  // whether the target has kernels for them
  std::vector<std::string> keep;  // names of operations that stay, for callers that measured their errors

  static std::vector<PassOption<LowerPrecision>> options() {
    return {{"type", &LowerPrecision::type, "tf32, bf16, f16 or int8"},
            {"always", &LowerPrecision::always, "also where the cost model sees no gain"},
            {"convolutions", &LowerPrecision::convolutions, "also convolutions"},
            {"attention", &LowerPrecision::attention, "also attention"}};
  }
  // Returns the decision of `run` for each product, convolution and attention of f32 operands, in order.
  // Throws user error 542 if `type` is none of these.
  std::vector<PrecisionChoice> choices(const ir::Schedule& schedule, const PassContext& context) const;
  bool run(ir::Schedule& schedule, PassContext& context);
};

}  // namespace braid::passes
