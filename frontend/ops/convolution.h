// Convolutions, as Conv, ConvTranspose and the operators that are fused with more compute them.
#pragma once

#include "frontend/ops/common.h"

namespace braid::frontend {

// Returns x (N, C, spatial...) convolved with the weights (filters, channels of a group, taps...), or
// transposed (channels, filters of a group, taps...). Uses the node's attributes strides, dilations, pads,
// auto_pad, group and kernel_shape. Sums of integers are i32.
TensorBox convolved(OpContext& c, const TensorBox& x, const TensorBox& w, bool transposed);

// The same of inputs 0 and 1, plus the bias in input 2 if there is one.
TensorBox convolution(OpContext& c, bool transposed);

}  // namespace braid::frontend
