// Loop nests with as few dimensions as their index expressions allow.
//
//   for i0 in batch, i1 in seq, i2 in 768: y[i0*seq*768 + i1*768 + i2] = f(x[same])
//   for i0 in batch*seq*768:               y[i0] = f(x[i0])
//
// Fewer dimensions: fewer divisions per element on a GPU, longer inner loops on a CPU.
#pragma once

#include "ir/graph.h"

namespace braid::codegen {

// Drops dimensions of size 1 and merges neighbours that every index expression steps through evenly. The
// first `fixed` dimensions and the border between kept and reduced ones stay. A reduction keeps at least one
// reduced dimension.
ir::Loops collapse(const ir::Loops& loops, ir::ExprPool& pool, std::size_t fixed = 0);

}  // namespace braid::codegen
