// Sums of products that a loop spells out: products of matrices and convolutions without a kernel.
#pragma once

#include "ir/graph.h"

namespace braid::ir {

// Whether the loop sums a[...] * b[...] where each factor is the same along a kept index along which the other changes: then every
// element of both is read many times, which a loop over the result does one by one. Not sums of squares, nor depthwise convolutions.
bool is_contraction(const Loops& loops);

}  // namespace braid::ir
