// Looks functions of one byte up in tables of 256 elements.
//
//   before                                         after
//     %3 = cast u8 %2                                %3 = cast u8 %2
//     %4 = cast f32 %3                               %4 = load %sigmoid.table[%3]
//     %5 = mul %4, scale                             %5 = cast u8 %4
//     %6 = sigmoid %5
//     ... cast u8 -> %9
//
// Why: quantised models round to bytes before and after each activation, so the activation is a function of
// 256 values. Its sigmoid or erf costs more than a load.
//
// Contract
//   1. A function qualifies by its structure: it depends on one i8 or u8 value and on literals only, and it
//      contains a `dear` operation or at least 20 flops (ir/op_table.h). The largest such functions become
//      tables.
//   2. Tables hold the values that the interpreter computes, so the interpreter's results stay bitwise the
//      same. On processors the library functions are approximations, so results there move closer to the
//      interpreter's.
//   3. Table elements have 4 bytes, because processors gather elements of that size. Only functions that
//      return f32 or an integer of up to 4 bytes become tables.
//   4. Equal tables are one constant.
//   5. GPUs and the bodies of regions are left alone.
// Runs after all fusion passes, which turn a chain into one body, and before the steps of epilogues are
// named.
#pragma once

#include <string_view>

#include "ir/schedule.h"
#include "passes/pass.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct ByteTables {
  static constexpr std::string_view kName = "byte_tables";
  static constexpr std::string_view kDescription = "looks functions of one byte up in tables";

  bool run(ir::Schedule& schedule, PassContext& context);
};

}  // namespace braid::passes
