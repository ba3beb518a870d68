// Tiles of products of 8-bit integers with VNNI: one instruction adds four products to each of sixteen sums,
// without saturation.
#include "runtime/integer_gemm.h"

#ifdef __x86_64__
#include <immintrin.h>

#include <algorithm>
#include <cstring>
// After the includes: inline functions, which other files have too, must not be built for this target.
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma")

namespace braid::rt::avx512 {
namespace {

constexpr int64_t kAhead = 2048;  // bytes of b that are prefetched: with few rows its memory is the limit

template <int kRows, int kVectors>
void tile_of(const ByteTile& t) {
  __m512i sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      sums[r][v] = _mm512_add_epi32(_mm512_loadu_si512(t.columns + v * 16), _mm512_set1_epi32(t.rows[r]));
  }
  const uint8_t* a[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) a[r] = t.a + r * t.a_row;
  const int8_t* b = t.b;
  constexpr int64_t kLine = 64;
  const int64_t ahead_step = t.ahead_bytes > 0 ? std::min(t.ahead_bytes / t.groups + 1, kLine) : 0;
  const int8_t* ahead = t.ahead_bytes > 0 ? t.ahead : b;
  const int64_t own_ahead = t.ahead_bytes > 0 ? kAhead : 0;  // 0: the line that is loaded
  for (int64_t g = 0; g < t.groups; ++g, b += kByteGroup * kBytePanel, ahead += ahead_step) {
    if constexpr (kRows > 2) _mm_prefetch(ahead, _MM_HINT_T1);
    __m512i w[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      w[v] = _mm512_loadu_si512(b + v * 64);
      if constexpr (kRows <= 2) _mm_prefetch(b + v * 64 + own_ahead, _MM_HINT_T0);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      int32_t four;
      std::memcpy(&four, a[r] + g * kByteGroup, sizeof four);
      const __m512i x = _mm512_set1_epi32(four);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_dpbusd_epi32(sums[r][v], x, w[v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_si512(t.sums + r * kBytePanel + v * 16, sums[r][v]);
  }
}

using TileFunction = void (*)(const ByteTile&);
// By vectors and rows, both from 1.
constexpr TileFunction kTiles[4][6] = {
    {tile_of<1, 1>, tile_of<2, 1>, tile_of<3, 1>, tile_of<4, 1>, tile_of<5, 1>, tile_of<6, 1>},
    {tile_of<1, 2>, tile_of<2, 2>, tile_of<3, 2>, tile_of<4, 2>, tile_of<5, 2>, tile_of<6, 2>},
    {tile_of<1, 3>, tile_of<2, 3>, tile_of<3, 3>, tile_of<4, 3>, tile_of<5, 3>, tile_of<6, 3>},
    {tile_of<1, 4>, tile_of<2, 4>, tile_of<3, 4>, tile_of<4, 4>, tile_of<5, 4>, tile_of<6, 4>},
};

void tile(const ByteTile& t, int rows, int vectors) { kTiles[vectors - 1][rows - 1](t); }

// kVectors * 16 channels, of the last vector those of `last`, of kRows positions from `row` on.
template <bool kSigned, int kRows, int kVectors>
void depthwise_tile(const ByteTaps& t, int64_t row, __mmask16 last) {
  __m512i sums[kRows][kVectors];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_setzero_si512();
  }
  const uint8_t* const* a = t.a + row * t.taps;
  const int32_t* w = t.weights;
  for (int64_t k = 0; k < t.taps; ++k, ++a, w += t.weights_row) {
    const uint8_t* from[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) from[r] = a[r * t.taps] + t.first;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const bool whole = v + 1 < kVectors;
      const __m512i weights =
          whole ? _mm512_loadu_si512(w + v * 16) : _mm512_maskz_loadu_epi32(last, w + v * 16);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const uint8_t* const at = from[r] + v * 16;
        const __m128i bytes =
            whole ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)) : _mm_maskz_loadu_epi8(last, at);
        const __m512i x = kSigned ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes);
        sums[r][v] = _mm512_dpwssd_epi32(sums[r][v], x, weights);
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    int32_t* const to = t.sums + (row + r) * t.sums_row;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      _mm512_mask_storeu_epi32(to + v * 16, v + 1 < kVectors ? static_cast<__mmask16>(0xffff) : last,
                               sums[r][v]);
  }
}

template <bool kSigned>
void depthwise_of(const ByteTaps& t) {
  using Function = void (*)(const ByteTaps&, int64_t, __mmask16);
  constexpr Function kOne[] = {depthwise_tile<kSigned, 1, 1>, depthwise_tile<kSigned, 1, 2>,
                               depthwise_tile<kSigned, 1, 3>, depthwise_tile<kSigned, 1, 4>};
  constexpr Function kFour[] = {depthwise_tile<kSigned, 4, 1>, depthwise_tile<kSigned, 4, 2>,
                                depthwise_tile<kSigned, 4, 3>, depthwise_tile<kSigned, 4, 4>};
  const int64_t vectors = (t.channels + 15) / 16, left = t.channels - (vectors - 1) * 16;
  const auto last = static_cast<__mmask16>((1u << left) - 1);
  int64_t row = 0;
  for (; row + 4 <= t.positions; row += 4) kFour[vectors - 1](t, row, last);
  for (; row < t.positions; ++row) kOne[vectors - 1](t, row, last);
}

void depthwise(const ByteTaps& t) {
  if (t.signed_a)
    depthwise_of<true>(t);
  else
    depthwise_of<false>(t);
}

void pack(const uint8_t* rows, int64_t b_row, int64_t groups, uint8_t flip, int8_t* to, uint32_t* sums) {
  const __m512i flips = _mm512_set1_epi8(static_cast<char>(flip)), ones = _mm512_set1_epi8(1);
  __m512i total[4];
  for (int v = 0; v < 4; ++v) total[v] = _mm512_loadu_si512(sums + v * 16);
  for (int64_t g = 0; g < groups; ++g, to += kByteGroup * kBytePanel) {
    __m512i row[4];
    for (int r = 0; r < 4; ++r)
      row[r] = _mm512_xor_si512(_mm512_loadu_si512(rows + (g * kByteGroup + r) * b_row), flips);
    // Each lane of 16 columns makes four registers with four columns each, all rows of a column together.
    const __m512i low01 = _mm512_unpacklo_epi8(row[0], row[1]), high01 = _mm512_unpackhi_epi8(row[0], row[1]),
                  low23 = _mm512_unpacklo_epi8(row[2], row[3]), high23 = _mm512_unpackhi_epi8(row[2], row[3]);
    const __m512i a = _mm512_unpacklo_epi16(low01, low23), b = _mm512_unpackhi_epi16(low01, low23),
                  c = _mm512_unpacklo_epi16(high01, high23), d = _mm512_unpackhi_epi16(high01, high23);
    // The lanes of the four registers, transposed.
    const __m512i ab_first = _mm512_shuffle_i32x4(a, b, 0x44), ab_last = _mm512_shuffle_i32x4(a, b, 0xee),
                  cd_first = _mm512_shuffle_i32x4(c, d, 0x44), cd_last = _mm512_shuffle_i32x4(c, d, 0xee);
    const __m512i out[4] = {
        _mm512_shuffle_i32x4(ab_first, cd_first, 0x88), _mm512_shuffle_i32x4(ab_first, cd_first, 0xdd),
        _mm512_shuffle_i32x4(ab_last, cd_last, 0x88), _mm512_shuffle_i32x4(ab_last, cd_last, 0xdd)};
    for (int v = 0; v < 4; ++v) {
      _mm512_storeu_si512(to + v * 64, out[v]);
      total[v] = _mm512_dpbusd_epi32(total[v], ones, out[v]);
    }
  }
  for (int v = 0; v < 4; ++v) _mm512_storeu_si512(sums + v * 16, total[v]);
}

}  // namespace

const ByteKernels kByteKernels = {6, 24, tile, depthwise, pack};

}  // namespace braid::rt::avx512
#endif
