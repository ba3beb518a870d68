// Replaces subnormal numbers in constant operands of products by 0.
//
//   before                                          after
//     constant %w: f32[768] = {1.5, 1e-40, ...}       constant %w: f32[768] = {1.5, 0, ...}
//     y = gemm x, %a epilogue { acc + load %w[i1] }   the same
//
// Training drives the weights and biases of channels that it does not need to such numbers. Processors take
// about a hundred instructions for each, and for each that comes of them. A product changes by less than
// 2^-126 times the sum of the other factors.
//
// Contract
//   1. Only constants of f32 change, whose bytes are known and which nothing reads but products, convolutions
//      and recurrences: as an operand, or in an epilogue to add, subtract or multiply.
//   2. A constant without subnormal numbers keeps its bytes and the file that they are in.
// Runs when epilogues are complete.
#pragma once

#include <string_view>

#include "ir/schedule.h"

namespace braid::passes {

struct FlushSubnormals {
  static constexpr std::string_view kName = "flush_subnormals";
  static constexpr std::string_view kDescription = "takes subnormal weights and biases of products for 0";
  bool run(ir::Schedule& schedule) const;
};

}  // namespace braid::passes
