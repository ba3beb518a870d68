// Convolutions that we compute ourselves where the processor has 512-bit vectors (tile_kernels.h), with
// constant weights: those with one tap, depthwise ones, and those of tap_convolution.h. oneDNN 2.6 has
// kernels for all; ours gain most where an activation follows, because oneDNN's exponential takes twice as
// long, for series, and for transposed convolutions.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/aligned_bytes.h"
#include "runtime/window_kernels.h"

namespace braid::rt {

// The kernels of one library. Shapes that differ only in the size of the image share packed weights.
class OwnWindows {
 public:
  // Kernels must not outlive this object. For one tap and depthwise convolutions; null for others.
  std::unique_ptr<WindowKernel> kernel(const ConvolutionShape& shape, const float* constant_b, int threads);
  // For those of winograd.h and tap_convolution.h; null for others.
  std::unique_ptr<WindowKernel> of_taps(const ConvolutionShape& shape, const float* constant_b, int threads);

 private:
  enum class Layout { panels, depthwise, taps, winograd };
  struct Packed {
    Layout layout;
    const float* b;
    ConvolutionShape weights;  // only what describes them
    AlignedBytes bytes;
  };
  template <class Fill>
  const float* packed(Layout layout, const ConvolutionShape& shape, const float* b, int64_t elements,
                      const Fill& fill);

  std::vector<Packed> packed_;
};

}  // namespace braid::rt
