// Convolutions that we compute ourselves where the processor has 512-bit vectors (tile_kernels.h): those with
// one tap and depthwise ones, of channels-last images, with constant weights. oneDNN 2.6 has kernels for
// both; ours gain most where an activation follows, because oneDNN's exponential takes twice as long, and for
// series, of which it has no fast depthwise ones.
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
  // Null for all other convolutions. The kernel must not outlive this object.
  std::unique_ptr<WindowKernel> kernel(const ConvolutionShape& shape, const float* constant_b, int threads);

 private:
  struct Packed {
    const float* b;
    ConvolutionShape weights;  // only what describes them
    AlignedBytes bytes;
  };
  template <class Fill>
  const float* packed(const ConvolutionShape& shape, const float* b, int64_t elements, const Fill& fill);

  std::vector<Packed> packed_;
};

}  // namespace braid::rt
