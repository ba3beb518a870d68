// Convolutions of channels-last images, transposed ones too, as products of the rows that the taps meet and
// packed weights (TileKernels::taps): for every size, stride, dilation and padding, f32, with 512-bit
// vectors.
//
// Rows of the result whose taps have the same distances in the image are a phase. A convolution has one. A
// transposed one has stride[0] * stride[1] * ... phases: which taps reach an element of its result depends on
// the element's position modulo the stride.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/tile_kernels.h"
#include "runtime/window_kernels.h"

namespace braid::rt {

// All numbers are per spatial dimension of three, the last ones those of the shape, others 1.
struct TapPhase {
  using Numbers = std::array<int64_t, kMaxSpatial>;
  Numbers count = {1, 1, 1};                     // rows of the result
  Numbers in_step = {1, 1, 1};                   // from one of them to the next, in the image
  Numbers out_first = {}, out_step = {1, 1, 1};  // in the result
  struct Tap {
    Numbers offset;   // in the image, from in_step * row
    int64_t weights;  // offset in the convolution's weights
  };
  std::vector<Tap> taps;

  int64_t rows() const { return count[0] * count[1] * count[2]; }
};

// The phases of a convolution. Those of a small result may have no rows.
std::vector<TapPhase> tap_phases(const ConvolutionShape& shape);

// The size of packed weights, in elements; they lie by phase, group, panel, tap, channel and filter.
int64_t tap_weights(const ConvolutionShape& shape);
void pack_tap_weights(const ConvolutionShape& shape, const float* b, float* to);

// Whether tap_convolution takes a shape.
bool suits_taps(const ConvolutionShape& shape);
std::unique_ptr<WindowKernel> tap_convolution(const ConvolutionShape& shape, const float* packed,
                                              int threads);

}  // namespace braid::rt
