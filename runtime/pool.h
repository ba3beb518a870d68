// Pools of f32 in any layout: maxima, averages and sums of windows, with any stride, dilation and padding. A
// maximum of windows that hold NaN is NaN; one of no element is -inf, and an average of none is NaN
// (ir::Pooling).
//
// A unit of work is one row of the result: all positions along the last spatial dimension, of one channel, or
// of all channels where they are adjacent in the input. The rows that its windows cover are combined first,
// element by element, then each window within the combined row. A window of k x k elements so takes about 2k
// operations, on adjacent elements, and no element is tested for lying inside.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/window_kernels.h"

namespace braid::rt {

std::unique_ptr<WindowKernel> pool_kernel(const PoolShape& shape, int threads);

// So many rows of one channel are combined before their windows are.
inline constexpr int64_t kPoolBatch = 8;

// Operands and sizes of all units. Spatial dimensions are moved to the end: the last one is that of the row.
struct PoolRows {
  PoolShape s;
  int64_t inner = 1;         // adjacent channels of a unit
  int64_t blocks = 1;        // units along the channels
  std::vector<float> along;  // average: 1 / the taps inside, for each position of a row and further ones

  int64_t units() const { return s.batch * blocks * s.out[0] * s.out[1]; }
  // Elements before the combined row, and it with those before and after, which vectors reach.
  int64_t margin() const { return std::max<int64_t>(s.pad[2], 0); }
  int64_t row_size() const {
    const int64_t last = (s.out[2] - 1) * s.stride[2] - s.pad[2] + (s.taps[2] - 1) * s.dilation[2];
    return (margin() + std::max(s.in[2], last + 1) + 16 * s.stride[2] + 32) * inner;
  }
  // Floats of scratch memory: combined rows, and a row of the result.
  int64_t scratch() const { return (inner == 1 ? kPoolBatch : 1) * row_size() + (s.out[2] + 16) * inner; }
};

// Units [begin, end).
using PoolUnits = void (*)(const PoolRows& rows, const float* a, float* out, float* scratch, int64_t begin,
                           int64_t end);
namespace baseline {
void pool_units(const PoolRows& rows, const float* a, float* out, float* scratch, int64_t begin, int64_t end);
}
#ifdef __x86_64__
namespace avx2 {
void pool_units(const PoolRows& rows, const float* a, float* out, float* scratch, int64_t begin, int64_t end);
}
namespace avx512 {
void pool_units(const PoolRows& rows, const float* a, float* out, float* scratch, int64_t begin, int64_t end);
}
#endif

}  // namespace braid::rt
