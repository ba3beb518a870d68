// Products by blocks of weights, with 256-bit vectors.
#include <algorithm>

#include "runtime/block_product.h"

#ifdef __x86_64__
#include <immintrin.h>
// After the includes: inline functions, which other files have too, must not be built for this target.
#pragma GCC target("avx2")

namespace braid::rt::avx2 {
namespace {

constexpr int64_t kBlockRows = 4;

struct Lanes {
  __m256 a, b;

  static Lanes zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Lanes all(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static Lanes load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
  static Lanes numbers(__m128i bytes, __m256i zero) {
    const __m256i low = _mm256_cvtepu8_epi32(bytes), high = _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8));
    return {_mm256_cvtepi32_ps(_mm256_sub_epi32(low, zero)),
            _mm256_cvtepi32_ps(_mm256_sub_epi32(high, zero))};
  }
  static Lanes bytes(const uint8_t* from, int zero) {
    return numbers(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)), _mm256_set1_epi32(zero));
  }
  struct Table {
    __m256i zero;
    explicit Table(int z) : zero(_mm256_set1_epi32(z)) {}
    void nibbles(const uint8_t* from, Lanes* low, Lanes* high) const {
      const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)), mask = _mm_set1_epi8(15);
      *low = numbers(_mm_and_si128(all, mask), zero);
      *high = numbers(_mm_and_si128(_mm_srli_epi16(all, 4), mask), zero);
    }
  };
  static Lanes multiply(const Lanes& x, const Lanes& y) {
    return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
  }
  static Lanes add(const Lanes& x, const Lanes& y) {
    return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
  }
  void store(float* to) const {
    _mm256_storeu_ps(to, a);
    _mm256_storeu_ps(to + 8, b);
  }
};

}  // namespace

#include "runtime/block_product_kernels.inc"

}  // namespace braid::rt::avx2
#endif
