// Replaces subnormal numbers in weights and biases of products by 0.
//
//   before                                          after
//     constant %w: f32[768] = {1.5, 1e-40, ...}       constant %w: f32[768] = {1.5, 0, ...}
//     y = gemm x, %a epilogue { acc + load %w[i1] }   the same
//
// Training drives the weights and biases of channels that it does not need to such numbers. A processor takes
// the time of a hundred instructions for each, and for each subnormal result. A sum of products changes by
// less than 2^-126 times the sum of its other factors; where one of these is infinite, it becomes NaN.
//
// Contract
//   1. Only constants of f32 change, whose bytes are known. Everything that reads them is a product, a
//      convolution or a recurrence that is a node of its own or a member of one: readers inside of regions
//      are others. A constant is an operand there, or an epilogue adds or subtracts it.
//   2. The epilogue changes about as little as the sum: no step of it divides by the sum, takes its logarithm
//      or sign, or multiplies it by a number that may be large.
//   3. A constant without subnormal numbers keeps its bytes and the file that they are in.
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
