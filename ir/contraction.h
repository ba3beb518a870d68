// Sums of products that a loop spells out: products of matrices and convolutions without a kernel.
#pragma once

#include "ir/graph.h"

namespace braid::ir {

// Whether the loop sums a[...] * b[...] where each factor is constant along a kept index along which the
// other varies. Then every element of both is read many times, and a loop over the result repeats each of
// these reads. False for sums of squares and depthwise convolutions.
bool is_contraction(const Loops& loops);

}  // namespace braid::ir
