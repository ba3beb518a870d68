// Tiles of products of 8-bit integers for any processor.
#include "runtime/integer_gemm.h"

namespace braid::rt::baseline {
#include "runtime/integer_depthwise.inc"

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

}  // namespace

const ByteKernels kByteKernels = {1, tile, depthwise};

}  // namespace braid::rt::baseline
