// Looks functions of one byte up in tables of 256 elements.
//
//   before                                         after
//     %3 = cast u8 %2                                %3 = cast u8 %2
//     %4 = cast f32 %3                               %4 = load %sigmoid.table[%3]
//     %5 = mul %4, scale                             %5 = cast u8 %4
//     %6 = sigmoid %5
//     ... cast u8 -> %9
//
// Why: quantised models round to bytes in front of and behind each activation, so that it is a function of 256 values. Its sigmoid or
// its erf costs more than the load.
//
// Contract
//   1. Structure decides: a value that depends on a single value of type i8 or u8 and on literals only, and whose computation
//      has an operation that is `dear`, or 20 flops (ir/op_table.h). The largest such functions become tables.
//   2. Tables hold what the interpreter computes, so that its results keep their bits. Functions of the library are approximations on
//      processors: results there come closer to the interpreter's.
//   3. Elements of tables have 4 bytes, as processors gather these. Functions with other results than f32 and integers of up to 4 bytes
//      stay.
//   4. Equal tables are one constant. Behind all fusion passes, which make one body of a chain, and before the steps of epilogues
//      are named. Not for GPUs, and not inside of regions.
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
