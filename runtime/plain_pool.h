// Pools by plain loops: what no kernel of the library takes, or computes wrongly.
#pragma once

#include <memory>

#include "runtime/window_kernels.h"

namespace braid::rt {

std::unique_ptr<WindowKernel> plain_pool(const PoolShape& shape, int threads);

// A maximum of windows that hold NaN is NaN, as ir::Pooling has it. The library's kernels return NaN or not, by the order of the
// elements: this one has the plain loops compute the pools of images that hold NaN.
std::unique_ptr<WindowKernel> max_pool_with_nan(std::unique_ptr<WindowKernel> library, const PoolShape& shape,
                                                int threads);

}  // namespace braid::rt
