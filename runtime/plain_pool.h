// Pools by plain loops, for shapes that no kernel of the library supports, or that it computes wrongly.
#pragma once

#include <memory>

#include "runtime/window_kernels.h"

namespace braid::rt {

std::unique_ptr<WindowKernel> plain_pool(const PoolShape& shape, int threads);

// A maximum of windows that hold NaN is NaN, as ir::Pooling defines it. The library's kernels return NaN or
// not, depending on the order of the elements. This kernel computes the pools of images that hold NaN by the
// plain loops.
std::unique_ptr<WindowKernel> max_pool_with_nan(std::unique_ptr<WindowKernel> library, const PoolShape& shape,
                                                int threads);

}  // namespace braid::rt
