// Splits a loop whose index expressions divide its index:
//
//   for i in [0, 1536): y[i] = x[i mod 768]      for a in [0, 2): for b in [0, 768): y[768*a + b] = x[b]
//
// Why: a vector of quotients by a number that is no power of two takes many instructions, and the load
// becomes a gather.
#pragma once

#include <optional>
#include <vector>

#include "ir/loop_body.h"

namespace braid::codegen::cpp {

// Returns the number by which all divisions of index `k`, alone, are: i mod c and floor(i / c). nullopt if
// there are none, if they are by different numbers, or if the number does not divide `extent` provably.
std::optional<ir::Expr> wrapped_by(const ir::LoopBody& body, ir::Expr store, std::size_t k, ir::Expr extent);

}  // namespace braid::codegen::cpp
