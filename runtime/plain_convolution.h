// Convolutions by plain, slow loops, for shapes that neither the library nor a kernel of our own
// (window_kernels_own.h) supports.
#pragma once

#include <memory>

#include "runtime/window_kernels.h"

namespace braid::rt {

// For f32 operands.
std::unique_ptr<WindowKernel> plain_convolution(const ConvolutionShape& shape, int threads);

}  // namespace braid::rt
