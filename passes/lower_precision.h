// Products and convolutions of f32 values by constant f32 weights, and attention, compute in a narrower type, where that pays.
//
//   before                                    after, type=bf16
//     constant %w: f32[8, 3]                    constant %w.bf16: bf16[8, 3]
//     %y: f32 = gemm %x, %w                     %x.bf16: bf16 = pointwise { cast bf16 (load %x) }
//                                               %y: f32 = gemm %x.bf16, %w.bf16
//
//                                             after, type=int8
//                                               constant %w.i8: i8[8, 3]   constant %w.scale: f32[3]
//                                               %x.largest: f32[m] = reduction max { abs(load %x) }
//                                               %x.i8: i8 = pointwise { cast i8 (round(load %x * (127 / largest))) }
//                                               %y: f32 = gemm %x.i8, %w.i8 epilogue { f32 acc * (largest / 127 * scale[column]) }
//
// A convolution reads one scale per image and filter instead of row and column. Attention, in bf16 and f16, reads casts of query,
// key and value and stores its result in the type; readers that are narrow too take it as it is, others a cast to f32.
//
// Contract
//   1. Sums, epilogues, softmax and everything else stay f32 (sums of i8: exact, i32). The roundings are casts in the text,
//      so interpreter and targets compute one program; fusion may put a cast into the loop or product that makes the values.
//   2. An operation is chosen if the cost model says that it, with its casts, takes less time than in f32. Two products of the
//      same rows share the cast, which is counted for each.
//   3. These stay: operations whose weights are not known when compiling or do not fit the type, and products of more than one
//      matrix; those inside regions; recurrent layers; what the target has no kernel for; in int8, attention and transposed
//      convolutions.
//   4. int8: weights have one scale per column or filter, rows or images one each, computed when the program runs; zero points
//      are 0, so that padding is too.
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
      "computes products, convolutions and attention in bf16, f16 or int8";

  std::string type = "bf16";
  bool always = false;
  bool convolutions = true, attention = true;  // whether the target has kernels for them
  std::vector<std::string> keep;  // names of operations that stay, for callers that measured their errors

  static std::vector<PassOption<LowerPrecision>> options() {
    return {{"type", &LowerPrecision::type, "bf16, f16 or int8"},
            {"always", &LowerPrecision::always, "also where the cost model sees no gain"},
            {"convolutions", &LowerPrecision::convolutions, "also convolutions"},
            {"attention", &LowerPrecision::attention, "also attention"}};
  }
  // What `run` would do with each product, convolution and attention of f32 operands, in order. User error 542 if `type` is none of these.
  std::vector<PrecisionChoice> choices(const ir::Schedule& schedule, const PassContext& context) const;
  bool run(ir::Schedule& schedule, PassContext& context);
};

}  // namespace braid::passes
