// Convolutions of 8-bit integers with constant weights (integer_gemm.h): windows become rows of a product,
// depthwise ones are summed directly. Private to the runtime library.
#pragma once

#include <memory>
#include <vector>

#include "runtime/integer_gemm.h"
#include "runtime/window_kernels.h"

namespace braid::rt {

inline bool is_byte_convolution(const ConvolutionShape& s) {
  return s.type == DType::i8 || s.type == DType::u8;
}

// The kernels of one library. Shapes that differ only in the size of the image share packed weights.
class ByteWindows {
 public:
  // The kernel must not outlive this object. `b` are weights that never change.
  std::unique_ptr<WindowKernel> kernel(const ConvolutionShape& shape, const void* b, int threads);

 private:
  struct Packed {
    const void* b;
    ConvolutionShape weights;  // only what describes them
    std::vector<std::unique_ptr<ByteMatrix>> groups;
    std::vector<int32_t> depthwise;  // [taps][groups], as ByteTaps has them
  };
  const Packed& packed(const ConvolutionShape& shape, const void* b);

  std::vector<std::unique_ptr<Packed>> packed_;
};

}  // namespace braid::rt
