// Convolutions by plain loops, slow: what neither the library takes nor a kernel of our own (window_kernels_own.h).
#pragma once

#include <memory>

#include "runtime/window_kernels.h"

namespace braid::rt {

// Of f32.
std::unique_ptr<WindowKernel> plain_convolution(const ConvolutionShape& shape, int threads);

}  // namespace braid::rt
