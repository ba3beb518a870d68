// Products of f32 rows by constant f32 weights compute in a narrower type, where that pays.
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
// Contract
//   1. Sums, epilogues and everything that is no product stay f32 (sums of i8: exact, i32). The roundings are casts in the text,
//      so interpreter and targets compute one program; fusion may put a cast into the loop or product that makes the rows.
//   2. A product is chosen if the cost model says that it, with its cast, takes less time than in f32. Two products of the same
//      rows share the cast, which is counted for each.
//   3. These stay: products whose weights are not known when compiling or do not fit the type, whose rows change, or of more than
//      one matrix; those inside regions; convolutions, recurrent layers and attention.
//   4. int8: weights have one scale per column, rows one each, computed when the program runs; zero points are 0.
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
      "computes products with constant weights in bf16, f16 or int8";

  std::string type = "bf16";
  bool always = false;
  std::vector<std::string> keep;  // names of operations that stay, for callers that measured their errors

  static std::vector<PassOption<LowerPrecision>> options() {
    return {{"type", &LowerPrecision::type, "bf16, f16 or int8"},
            {"always", &LowerPrecision::always, "also where the cost model sees no gain"}};
  }
  // What `run` would do with each product of f32 operands, in order. User error 542 if `type` is none of these.
  std::vector<PrecisionChoice> choices(const ir::Schedule& schedule, const PassContext& context) const;
  bool run(ir::Schedule& schedule, PassContext& context);
};

}  // namespace braid::passes
