// Tiles of products of 8-bit integers with VNNI: one instruction adds four products to each of sixteen sums, without saturation.
#include "runtime/integer_gemm.h"

#ifdef __x86_64__
#include <immintrin.h>

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
  for (int64_t g = 0; g < t.groups; ++g, b += kByteGroup * kBytePanel) {
    __m512i w[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      w[v] = _mm512_loadu_si512(b + v * 64);
      if constexpr (kRows <= 2) _mm_prefetch(b + v * 64 + kAhead, _MM_HINT_T0);
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

// Vectors of 16 channels [first, first + kVectors * 16), with the elements that `last` has of the last one.
template <bool kSigned, int kVectors>
void depthwise_vectors(const ByteTaps& t, int64_t first, __mmask16 last) {
  __m512i sums[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) sums[v] = _mm512_setzero_si512();
  for (int64_t k = 0; k < t.taps; ++k) {
    if (t.a[k] == nullptr) continue;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const __mmask16 mask = v + 1 == kVectors ? last : static_cast<__mmask16>(0xffff);
      const int64_t at = first + v * 16;
      const __m128i bytes = _mm_maskz_loadu_epi8(mask, t.a[k] + t.first + at);
      const __m512i x = kSigned ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes);
      const __m512i w = _mm512_maskz_loadu_epi32(mask, t.weights + k * t.weights_row + at);
      sums[v] = _mm512_dpwssd_epi32(sums[v], x, w);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v)
    _mm512_mask_storeu_epi32(t.sums + first + v * 16,
                             v + 1 == kVectors ? last : static_cast<__mmask16>(0xffff), sums[v]);
}

template <bool kSigned>
void depthwise_of(const ByteTaps& t) {
  constexpr int kTogether = 4;
  int64_t first = 0;
  for (; first + kTogether * 16 <= t.channels; first += kTogether * 16)
    depthwise_vectors<kSigned, kTogether>(t, first, 0xffff);
  for (; first < t.channels; first += 16) {
    const int64_t left = t.channels - first;
    depthwise_vectors<kSigned, 1>(t, first, static_cast<__mmask16>(left >= 16 ? 0xffff : (1 << left) - 1));
  }
}

void depthwise(const ByteTaps& t) {
  if (t.signed_a)
    depthwise_of<true>(t);
  else
    depthwise_of<false>(t);
}

}  // namespace

const ByteKernels kByteKernels = {6, 24, tile, depthwise};

}  // namespace braid::rt::avx512
#endif
