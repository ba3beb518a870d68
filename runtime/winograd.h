// Convolutions with 3x3 taps by Winograd's algorithm F(2x2, 3x3), f32, of channels-last images, with 512-bit
// vectors (tile_kernels.h):
//
//   out = A^T [ (G w G^T) * (B^T in B) ] A       in: 4x4 elements, out: 2x2 elements
//
//         |1  0  0|          |1  0 -1  0|
//     G = |½  ½  ½|    B^T = |0  1  1  0|    A^T = |1  1  1  0|
//         |½ -½  ½|          |0 -1  1  0|          |0  1 -1 -1|
//         |0  0  1|          |0  1  0 -1|
//
// The product in the middle is one matrix product, over channels, for each of the 16 elements. It takes 2.25
// times fewer multiplications than sums over taps. Errors are about 1e-6 of the largest element, where such
// sums have 1e-7 to 1e-6.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/window_kernels.h"

namespace braid::rt {

// Whether the algorithm takes a shape, and pays.
bool suits_winograd_tiles(const ConvolutionShape& shape);
// The size of transformed weights, in elements; they lie by element of the tile, panel, channel and filter.
int64_t winograd_weights(const ConvolutionShape& shape);
void pack_winograd_weights(const ConvolutionShape& shape, const float* b, float* to);
std::unique_ptr<WindowKernel> winograd_convolution(const ConvolutionShape& shape, const float* packed,
                                                   int threads);

}  // namespace braid::rt
