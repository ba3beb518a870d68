// Convolutions, as Conv, ConvTranspose and the operators that are fused with more compute them.
#pragma once

#include "frontend/ops/common.h"

namespace braid::frontend {

// The convolution of x with the weights w by the node's attributes; sizes are those of inputs 0 and 1, channels first.
TensorBox convolved(OpContext& c, const TensorBox& x, const TensorBox& w, bool transposed);

// The same of inputs 0 and 1, plus the bias in input 2 if there is one.
TensorBox convolution(OpContext& c, bool transposed);

}  // namespace braid::frontend
