// Two numbers of 16 bits in a register, as mma_sync takes and stmatrix stores them: the first in the low
// bits. T is __half or __nv_bfloat16. Each operation rounds once, to the nearest, and none is contracted
// with another.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace braid::rt::device {

template <class T>
using Pair = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;

template <class T>
__device__ Pair<T> pair_of(uint32_t bits) {
  Pair<T> pair;
  memcpy(&pair, &bits, sizeof bits);
  return pair;
}
template <class P>
__device__ uint32_t bits_of_pair(P pair) {
  uint32_t bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}

template <class T>
__device__ uint32_t pack_floats(float first, float second) {
  if constexpr (std::is_same_v<T, __half>)
    return bits_of_pair(__floats2half2_rn(first, second));
  else
    return bits_of_pair(__floats2bfloat162_rn(first, second));
}
template <class T>
__device__ float2 unpack_floats(uint32_t bits) {
  if constexpr (std::is_same_v<T, __half>)
    return __half22float2(pair_of<T>(bits));
  else
    return __bfloat1622float2(pair_of<T>(bits));
}

template <class T>
__device__ uint32_t packed_add(uint32_t a, uint32_t b) {
  return bits_of_pair(__hadd2_rn(pair_of<T>(a), pair_of<T>(b)));
}
template <class T>
__device__ uint32_t packed_mul(uint32_t a, uint32_t b) {
  return bits_of_pair(__hmul2_rn(pair_of<T>(a), pair_of<T>(b)));
}
// a * b + c, rounded once.
template <class T>
__device__ uint32_t packed_fma(uint32_t a, uint32_t b, uint32_t c) {
  return bits_of_pair(__hfma2(pair_of<T>(a), pair_of<T>(b), pair_of<T>(c)));
}
// NaN if one is.
template <class T>
__device__ uint32_t packed_max(uint32_t a, uint32_t b) {
  return bits_of_pair(__hmax2_nan(pair_of<T>(a), pair_of<T>(b)));
}

}  // namespace braid::rt::device
