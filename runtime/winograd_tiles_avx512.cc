// The transforms of Winograd's algorithm (winograd.h), with 512-bit vectors of channels or filters.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "runtime/tile_kernels.h"
#include "runtime/vec_math.h"

#ifdef __x86_64__
#include <immintrin.h>
// After the includes: inline functions, which other files have too, must not be built for this target.
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma")

namespace braid::rt::avx512 {
#include "runtime/finish_tile_avx512.inc"

namespace {

constexpr int64_t kColumns = 4 * kLanes;  // filters that are finished together
constexpr int64_t kPixels = 16;           // and elements of a line

__mmask16 mask_of(int64_t left) {
  return static_cast<__mmask16>(left >= kLanes ? 0xffffu : (1u << left) - 1);
}

}  // namespace

// elements[e * element_row + c] = (B^T in B)[e] of channel c, where in[e] has the channels of an element.
void winograd_in(const float* const* in, int64_t channels, float* elements, int64_t element_row) {
  for (int64_t c = 0; c < channels; c += kLanes) {
    const __mmask16 mask = mask_of(channels - c);
    __m512 half[4][4];
#pragma GCC unroll 4
    for (int x = 0; x < 4; ++x) {
      const __m512 a = _mm512_maskz_loadu_ps(mask, in[x] + c), b = _mm512_maskz_loadu_ps(mask, in[4 + x] + c),
                   d = _mm512_maskz_loadu_ps(mask, in[8 + x] + c),
                   e = _mm512_maskz_loadu_ps(mask, in[12 + x] + c);
      half[0][x] = _mm512_sub_ps(a, d);
      half[1][x] = _mm512_add_ps(b, d);
      half[2][x] = _mm512_sub_ps(d, b);
      half[3][x] = _mm512_sub_ps(b, e);
    }
#pragma GCC unroll 4
    for (int y = 0; y < 4; ++y) {
      const auto store = [&](int x, __m512 value) {
        _mm512_mask_storeu_ps(elements + (4 * y + x) * element_row + c, mask, value);
      };
      store(0, _mm512_sub_ps(half[y][0], half[y][2]));
      store(1, _mm512_add_ps(half[y][1], half[y][2]));
      store(2, _mm512_sub_ps(half[y][2], half[y][1]));
      store(3, _mm512_sub_ps(half[y][1], half[y][3]));
    }
  }
}

void winograd_out(const WinogradLine& line, const Epilogue& epilogue, const GemmArgs& args) {
  alignas(64) float sums[2][kPixels * kColumns];
  for (int64_t first = 0; first < line.tiles; first += kPixels / 2) {
    const int64_t tiles = std::min(kPixels / 2, line.tiles - first);
    for (int64_t column = 0; column < line.filters; column += kColumns) {
      const int64_t columns = std::min(kColumns, line.filters - column);
      for (int64_t t = 0; t < tiles; ++t) {
        for (int64_t f = 0; f < columns; f += kLanes) {
          const __mmask16 mask = mask_of(columns - f);
          const float* const from = line.products + (first + t) * line.filters + column + f;
          __m512 half[2][4];
#pragma GCC unroll 4
          for (int x = 0; x < 4; ++x) {
            const auto load = [&](int y) {
              return _mm512_maskz_loadu_ps(mask, from + (4 * y + x) * line.element_row);
            };
            const __m512 b = load(1), d = load(2);
            half[0][x] = _mm512_add_ps(load(0), _mm512_add_ps(b, d));
            half[1][x] = _mm512_sub_ps(_mm512_sub_ps(b, d), load(3));
          }
#pragma GCC unroll 2
          for (int y = 0; y < 2; ++y) {
            float* const to = sums[y] + 2 * t * kColumns + f;
            _mm512_store_ps(to, _mm512_add_ps(half[y][0], _mm512_add_ps(half[y][1], half[y][2])));
            _mm512_store_ps(to + kColumns, _mm512_sub_ps(_mm512_sub_ps(half[y][1], half[y][2]), half[y][3]));
          }
        }
      }
      const int64_t pixels = std::min(2 * tiles, line.out_columns - 2 * first);
      for (int64_t y = 0; y < line.out_lines; ++y) {
        const int64_t at = line.out + y * line.out_line + 2 * first * line.out_column + column;
        finish_tile({sums[y], kColumns, pixels, columns, column, at, line.out_column}, epilogue, 0, args);
      }
    }
  }
}

}  // namespace braid::rt::avx512
#endif
