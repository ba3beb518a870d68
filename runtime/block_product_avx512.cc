// Products by blocks of weights, with 512-bit vectors: numbers of 4 bits are looked up in a register.
#include <algorithm>

#include "runtime/block_product.h"

#ifdef __x86_64__
#include <immintrin.h>
// After the includes: inline functions, which other files have too, must not be built for this target.
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")

namespace braid::rt::avx512 {
namespace {

constexpr int64_t kBlockRows = 8;

struct Lanes {
  __m512 v;

  static Lanes zero() { return {_mm512_setzero_ps()}; }
  static Lanes all(float x) { return {_mm512_set1_ps(x)}; }
  static Lanes load(const float* from) { return {_mm512_loadu_ps(from)}; }
  static Lanes bytes(const uint8_t* from, int zero) {
    const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return {_mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_cvtepu8_epi32(all), _mm512_set1_epi32(zero)))};
  }
  struct Table {
    __m512 numbers;
    explicit Table(int zero)
        : numbers(_mm512_cvtepi32_ps(
              _mm512_sub_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                               _mm512_set1_epi32(zero)))) {}
    void nibbles(const uint8_t* from, Lanes* low, Lanes* high) const {
      const __m512i all = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
      low->v = _mm512_permutexvar_ps(all, numbers);  // reads the low four bits
      high->v = _mm512_permutexvar_ps(_mm512_srli_epi32(all, 4), numbers);
    }
  };
  static Lanes multiply(Lanes a, Lanes b) { return {_mm512_mul_ps(a.v, b.v)}; }
  static Lanes add(Lanes a, Lanes b) { return {_mm512_add_ps(a.v, b.v)}; }
  void store(float* to) const { _mm512_store_ps(to, v); }
};

}  // namespace

#include "runtime/block_product_kernels.inc"

}  // namespace braid::rt::avx512
#endif
