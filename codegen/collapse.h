// Reduces loop nests to as few dimensions as their index expressions allow.
//
//   for i0 in batch, i1 in seq, i2 in 768: y[i0*seq*768 + i1*768 + i2] = f(x[same])
//   for i0 in batch*seq*768:               y[i0] = f(x[i0])
//
// This means fewer divisions per element on a GPU and longer inner loops on a CPU.
#pragma once

#include "ir/graph.h"

namespace braid::codegen {

// Drops dimensions of size 1 and merges neighbours that every index expression traverses with one stride.
// Keeps the first `fixed` dimensions, the boundary between kept and reduced ones, and at least one reduced
// dimension of a reduction.
ir::Loops collapse(const ir::Loops& loops, ir::ExprPool& pool, std::size_t fixed = 0);

// Does the same for the first `outer` dimensions, which all of the loops share and none reduces. Returns how
// many are left.
std::size_t collapse_outer(std::span<ir::Loops> loops, std::size_t outer, ir::ExprPool& pool);

}  // namespace braid::codegen
