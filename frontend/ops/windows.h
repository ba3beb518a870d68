// Attributes that convolutions and pools share: kernel_shape, strides, dilations, pads, auto_pad, ceil_mode.
#pragma once

#include <vector>

#include "frontend/ops/common.h"

namespace braid::frontend {

struct Windows {
  std::vector<ir::Window> windows;
  std::vector<Expr> pads_after;  // at the end of each spatial dimension
  std::vector<Expr> sizes;       // of the result
};

// Returns the windows of a convolution or pool over spatial dimensions of these sizes. Throws BR0111 for
// attributes of wrong length or sign, BR0114 for a window larger than its padded input.
//
// The two differ where auto_pad is SAME and windows are shorter than their strides, about which the
// specification says nothing. The references pad no convolution then, but let pools leave elements out on
// both sides (a negative pad, rounded towards zero).
Windows windows_of_convolution(OpContext& c, const std::vector<Expr>& spatial,
                               const std::vector<std::int64_t>& taps);
Windows windows_of_pool(OpContext& c, const std::vector<Expr>& spatial,
                        const std::vector<std::int64_t>& taps);

// The same of ConvTranspose, of whose result the windows move over.
Windows transposed_windows_of(OpContext& c, const std::vector<Expr>& spatial,
                              const std::vector<std::int64_t>& taps);

// Attribute kernel_shape of a pool with so many spatial dimensions.
std::vector<std::int64_t> kernel_shape(OpContext& c, std::size_t spatial);

// The sizes after batch and channels. BR0114: there are none.
std::vector<Expr> spatial_sizes(OpContext& c, const std::vector<Expr>& sizes);

// AveragePool of x (N, C, spatial...) with the node's attributes.
TensorBox average_pool(OpContext& c, const TensorBox& x);

// [n, channels, spatial...] with the channels last, and back.
TensorBox channels_last(ir::Lowering& l, TensorBox x);
TensorBox channels_first(ir::Lowering& l, TensorBox x);

}  // namespace braid::frontend
