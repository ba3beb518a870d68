// Tiles of products of 8-bit integers for any processor.
#include <algorithm>
#include <cstring>

#include "runtime/integer_gemm.h"

namespace braid::rt::baseline {
namespace {

template <class A>
void depthwise_of(const ByteTaps& t) {
  for (int64_t r = 0; r < t.positions; ++r) {
    int32_t sums[kBytePanel] = {};
    for (int64_t k = 0; k < t.taps; ++k) {
      const A* const a = reinterpret_cast<const A*>(t.a[r * t.taps + k]) + t.first;
      const int32_t* const w = t.weights + k * t.weights_row;
#pragma omp simd
      for (int64_t j = 0; j < t.channels; ++j) sums[j] += int32_t{a[j]} * int32_t{static_cast<int16_t>(w[j])};
    }
    std::copy_n(sums, t.channels, t.sums + r * t.sums_row);
  }
}

void depthwise(const ByteTaps& t) {
  if (t.signed_a)
    depthwise_of<int8_t>(t);
  else
    depthwise_of<uint8_t>(t);
}

}  // namespace

namespace {

void tile(const ByteTile& t, int rows, int vectors) {
  for (int r = 0; r < rows; ++r) {
    const uint8_t* const a = t.a + r * t.a_row;
    for (int v = 0; v < vectors; ++v) {
      uint32_t sums[16];
      for (int j = 0; j < 16; ++j)
        sums[j] = static_cast<uint32_t>(t.columns[v * 16 + j]) + static_cast<uint32_t>(t.rows[r]);
      for (int64_t g = 0; g < t.groups; ++g) {
        const uint8_t* const x = a + g * kByteGroup;
        const int8_t* const w = t.b + g * kByteGroup * kBytePanel + v * 64;
        for (int j = 0; j < 16; ++j) {
          const int32_t sum =
              x[0] * w[4 * j] + x[1] * w[4 * j + 1] + x[2] * w[4 * j + 2] + x[3] * w[4 * j + 3];
          sums[j] += static_cast<uint32_t>(sum);
        }
      }
      for (int j = 0; j < 16; ++j) t.sums[r * kBytePanel + v * 16 + j] = static_cast<int32_t>(sums[j]);
    }
  }
}

void pack(const uint8_t* rows, int64_t b_row, int64_t groups, uint8_t flip, int8_t* to, uint32_t* sums) {
  const uint32_t flips = flip * 0x01010101u;
  for (int64_t g = 0; g < groups; ++g, to += kByteGroup * kBytePanel) {
    const uint8_t *r0 = rows + g * kByteGroup * b_row, *r1 = r0 + b_row, *r2 = r1 + b_row, *r3 = r2 + b_row;
    uint32_t out[kBytePanel];
    for (int64_t j = 0; j < kBytePanel; ++j)
      out[j] = uint32_t{r0[j]} | uint32_t{r1[j]} << 8 | uint32_t{r2[j]} << 16 | uint32_t{r3[j]} << 24;
    for (int64_t j = 0; j < kBytePanel; ++j) out[j] ^= flips;
    std::memcpy(to, out, sizeof out);
    for (int64_t j = 0; j < kBytePanel; ++j) {
      const int8_t* const x = to + j * kByteGroup;
      sums[j] += static_cast<uint32_t>(x[0] + x[1] + x[2] + x[3]);
    }
  }
}

}  // namespace

const ByteKernels kByteKernels = {1, 24, tile, depthwise, pack};

}  // namespace braid::rt::baseline
