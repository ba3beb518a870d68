// Tiles of products of 8-bit integers with 256-bit vectors. Both operands are widened to 16 bits: the
// instruction that multiplies bytes saturates the sum of two products.
#include "runtime/integer_gemm.h"

#ifdef __x86_64__
#include <immintrin.h>

#include <cstring>
// After the includes: inline functions, which other files have too, must not be built for this target.
#pragma GCC target("avx2,fma")

namespace braid::rt::avx2 {
namespace {

// The four elements of a group as 16-bit numbers, four times.
inline __m256i group_of(const uint8_t* a) {
  int32_t four;
  std::memcpy(&four, a, sizeof four);
  return _mm256_cvtepu8_epi16(_mm_set1_epi32(four));
}

// Each vector has the sums of four columns, in two parts that are added at the end.
template <int kRows>
void columns_of(const ByteTile& t, int vector, int row) {
  __m256i sums[kRows][4];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) sums[r][q] = _mm256_setzero_si256();
  }
  const int8_t* b = t.b + vector * 64;
  const uint8_t* a = t.a + row * t.a_row;
  for (int64_t g = 0; g < t.groups; ++g, b += kByteGroup * kBytePanel) {
    __m256i x[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) x[r] = group_of(a + r * t.a_row + g * kByteGroup);
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
      const __m256i w = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b + q * 16)));
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) sums[r][q] = _mm256_add_epi32(sums[r][q], _mm256_madd_epi16(x[r], w));
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    int32_t* const to = t.sums + (row + r) * kBytePanel + vector * 16;
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      // Columns 0 1 4 5 | 2 3 6 7, put in order.
      const __m256i added =
          _mm256_permute4x64_epi64(_mm256_hadd_epi32(sums[r][2 * h], sums[r][2 * h + 1]), 0xd8);
      const __m256i start = _mm256_add_epi32(
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(t.columns + vector * 16 + h * 8)),
          _mm256_set1_epi32(t.rows[row + r]));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + h * 8), _mm256_add_epi32(added, start));
    }
  }
}

void tile(const ByteTile& t, int rows, int vectors) {
  for (int v = 0; v < vectors; ++v) {
    int row = 0;
    for (; row + 2 <= rows; row += 2) columns_of<2>(t, v, row);
    if (row < rows) columns_of<1>(t, v, row);
  }
}

// 8 channels from `first` on, or `count` of them.
template <bool kSigned, bool kWhole>
void depthwise_channels(const ByteTaps& t, int64_t row, int64_t first, int64_t count) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lanes);
  __m256i sums = _mm256_setzero_si256();
  for (int64_t k = 0; k < t.taps; ++k) {
    const uint8_t* const a = t.a[row * t.taps + k] + t.first + first;
    int64_t eight = 0;
    std::memcpy(&eight, a, kWhole ? 8 : static_cast<size_t>(count));
    const __m128i bytes = _mm_cvtsi64_si128(eight);
    const __m256i x = kSigned ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes);
    const int32_t* const w = t.weights + k * t.weights_row + first;
    const __m256i weights =
        kWhole ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w)) : _mm256_maskload_epi32(w, mask);
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(x, weights));
  }
  int32_t* const to = t.sums + row * t.sums_row + first;
  if constexpr (kWhole)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), sums);
  else
    _mm256_maskstore_epi32(to, mask, sums);
}

template <bool kSigned>
void depthwise_of(const ByteTaps& t) {
  for (int64_t row = 0; row < t.positions; ++row) {
    int64_t first = 0;
    for (; first + 8 <= t.channels; first += 8) depthwise_channels<kSigned, true>(t, row, first, 8);
    if (first < t.channels) depthwise_channels<kSigned, false>(t, row, first, t.channels - first);
  }
}

void depthwise(const ByteTaps& t) {
  if (t.signed_a)
    depthwise_of<true>(t);
  else
    depthwise_of<false>(t);
}

}  // namespace

const ByteKernels kByteKernels = {8, 24, tile, depthwise, baseline::kByteKernels.pack};

}  // namespace braid::rt::avx2
#endif
