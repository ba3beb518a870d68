// How plain loops walk through the windows of convolutions.
#pragma once

#include "runtime/gemm_library.h"
#include "runtime/team.h"
#include "runtime/window_kernels.h"

namespace braid::rt::plain {

using Position = std::array<int64_t, kMaxSpatial>;

// With extents of 1 in the unused dimensions.
template <class Shape>
Shape in_three_dimensions(Shape s) {
  for (int d = s.spatial; d < kMaxSpatial; ++d) s.in[d] = s.out[d] = s.taps[d] = 1;
  return s;
}

inline int64_t volume(const Position& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

// Position number `index` of a row-major box.
inline Position position(int64_t index, const Position& sizes) {
  Position at;
  for (int d = kMaxSpatial - 1; d >= 0; --d) {
    at[d] = index % sizes[d];
    index /= sizes[d];
  }
  return at;
}

inline int64_t offset(const Position& at, const std::array<int64_t, kMaxSpatial>& strides) {
  int64_t sum = 0;
  for (int d = 0; d < kMaxSpatial; ++d) sum += at[d] * strides[d];
  return sum;
}

// The element that a tap reads for an element of the result; false if there is none.
inline bool source(const WindowShape& s, bool transposed, const Position& out, const Position& tap,
                   Position* in) {
  for (int d = 0; d < kMaxSpatial; ++d) {
    if (d >= s.spatial) {
      (*in)[d] = 0;
      continue;
    }
    int64_t at = transposed ? out[d] + s.pad[d] - tap[d] * s.dilation[d]
                            : out[d] * s.stride[d] - s.pad[d] + tap[d] * s.dilation[d];
    if (transposed) {
      if (at % s.stride[d] != 0) return false;
      at /= s.stride[d];
    }
    if (at < 0 || at >= s.in[d]) return false;
    (*in)[d] = at;
  }
  return true;
}

// Calls f(batch, position of the result) for all of them, in parallel.
template <class F>
void for_each_result(const WindowShape& s, int threads, const F& f) {
  const int64_t positions = volume(s.out);
  parallel_for(s.batch * positions, threads > 1, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) f(k / positions, position(k % positions, s.out));
  });
}

}  // namespace braid::rt::plain
