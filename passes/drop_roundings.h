// Drops roundings to f16 and bf16 between the model's operators within one kernel: a value is rounded only
// where it is stored.
//
//   before                                        after
//     y: f16 = pointwise {                          y: f16 = pointwise {
//       %0 = load %x                                  %0 = load %x
//       %1 = cast f32 %0                              %1 = cast f32 %0
//       %2 = exp %1                                   %2 = exp %1
//       %3 = cast f16 %2     the first operator's     %3 = load %z
//       %4 = load %z                                  %4 = cast f32 %3
//       %5 = add %3, %4      the second one's         %5 = add %2, %4
//       store %5                                      %6 = cast f16 %5
//     }                                               store %6
//                                                   }
//
// Contract
//   1. Values that a kernel reads from or writes to memory keep their type and their rounding. A tensor that
//      one member of a fused node writes and only members of that node touch becomes f32: it has no memory in
//      the program.
//   2. Comparisons and conversions to integers and bits see the rounded values, also through wider floats.
//      They decide as the model does.
//   3. A body changes only if that leaves fewer roundings. The text after the pass is the program:
//      interpreter and targets compute the same values from it. Results differ from those of the model as
//      written by the dropped roundings.
//   4. Epilogues that change lose the names of their steps.
// Runs after all fusion passes.
#pragma once

#include <string_view>

#include "ir/schedule.h"
#include "passes/pass.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct DropRoundings {
  static constexpr std::string_view kName = "drop_roundings";
  static constexpr std::string_view kDescription =
      "leaves out roundings to f16 and bf16 between operators inside of one kernel";
  // Adds their number to context.dropped_roundings.
  bool run(ir::Schedule& schedule, PassContext& context);
};

}  // namespace braid::passes
