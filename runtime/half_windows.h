// Convolutions of halves (f16 or bf16) by f32 kernels, for processors and libraries without kernels for
// halves: operands become f32, the result is rounded once. Private to the runtime library.
#pragma once

#include <memory>
#include <vector>

#include "runtime/aligned_bytes.h"
#include "runtime/window_kernels.h"

namespace braid::rt {

inline bool is_half_convolution(const ConvolutionShape& s) {
  return s.type == DType::f16 || s.type == DType::bf16;
}

class HalfWindows {
 public:
  // The same convolution of f32 operands.
  static ConvolutionShape widened(const ConvolutionShape& shape);
  // Its weights, at the strides of `shape`. They live as long as this.
  const float* widened(const ConvolutionShape& shape, const void* b);
  // Around a kernel for the widened shape and weights, which must outlive it.
  std::unique_ptr<WindowKernel> kernel(const ConvolutionShape& shape, const WindowKernel& f32,
                                       int threads) const;

 private:
  struct Weights {
    const void* b;
    DType type;
    int64_t elements;
    AlignedBytes floats;
  };
  std::vector<Weights> weights_;
};

}  // namespace braid::rt
