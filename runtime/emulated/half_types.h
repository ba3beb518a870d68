// __half and __nv_bfloat16, and pairs of them, with the conversions and operators of cuda_fp16.h and
// cuda_bf16.h that kernels use. Arithmetic is rounded once, as the GPU's instructions do for a single
// operation: a float holds enough bits for a sum or a product of two, and round_to_odd for all else.
#pragma once

#include <bit>
#include <cstdint>

#include "runtime/emulated/vector_types.h"

namespace braid::emulated {

// Returns `high + low` or, if it is no float, the one next to it whose last bit is odd. Rounding that to
// fewer bits gives what rounding the exact sum would (Boldo and Melquiond, 2008). |low| is at most half a
// unit in the last place of `high`.
inline float round_to_odd(double high, double low = 0) {
  const float nearest = static_cast<float>(high);
  double rest = high - static_cast<double>(nearest);
  if (rest == 0) rest = low;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (!(rest < 0 || rest > 0) || bits % 2 != 0) return nearest;
  if (nearest == 0) return std::bit_cast<float>(rest < 0 ? 0x80000001u : 1u);
  bits += (rest < 0) == (nearest < 0) ? 1u : ~0u;
  return std::bit_cast<float>(bits);
}

// Rounds to tf32's 10 bits of mantissa, halfway cases away from zero (cvt.rna.tf32.f32).
inline uint32_t tf32_bits(float value) {
  return value != value ? 0x7fffffffu : (std::bit_cast<uint32_t>(value) + 0x1000u) & 0xffffe000u;
}

}  // namespace braid::emulated

struct alignas(2) __half {
  uint16_t bits;
  __half() = default;
  explicit __half(float value) : bits(round(value)) {}
  operator float() const { return widen(bits); }

  static uint16_t round(float value) {
    const uint32_t x = std::bit_cast<uint32_t>(value);
    const uint32_t sign = x >> 16 & 0x8000u;
    const uint32_t magnitude = x & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<uint16_t>(0x7fffu);  // CUDA's canonical NaN
    if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
    if (magnitude < 0x38800000u) {  // subnormal: adding 0.5 makes the float unit round at 2^-24
      const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
      return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(rounded) - 0x3f000000u));
    }
    const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u;
    return static_cast<uint16_t>(sign | rounded >> 13);
  }
  static float widen(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t rest = bits & 0x7fffu;
    if (rest >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    if (rest < 0x400u) {
      const float value = static_cast<float>(rest) * 0x1p-24f;
      return sign ? -value : value;
    }
    return std::bit_cast<float>(sign | ((rest << 13) + 0x38000000u));
  }
};

struct alignas(2) __nv_bfloat16 {
  uint16_t bits;
  __nv_bfloat16() = default;
  explicit __nv_bfloat16(float value) : bits(round(value)) {}
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

  static uint16_t round(float value) {
    const uint32_t x = std::bit_cast<uint32_t>(value);
    if ((x & 0x7fffffffu) > 0x7f800000u) return 0x7fffu;
    return static_cast<uint16_t>((x + 0x7fffu + (x >> 16 & 1u)) >> 16);
  }
};

using half = __half;
using nv_bfloat16 = __nv_bfloat16;

inline float __half2float(__half value) { return static_cast<float>(value); }
inline __half __float2half(float value) { return __half(value); }
inline __half __float2half_rn(float value) { return __half(value); }
inline float __bfloat162float(__nv_bfloat16 value) { return static_cast<float>(value); }
inline __nv_bfloat16 __float2bfloat16(float value) { return __nv_bfloat16(value); }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return __nv_bfloat16(value); }

// ---- pairs, of which x lies in the low bits

struct alignas(4) __half2 {
  __half x, y;
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

inline __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__nv_bfloat16(x), __nv_bfloat16(y)}; }
inline float2 __half22float2(__half2 pair) { return {pair.x, pair.y}; }
inline float2 __bfloat1622float2(__nv_bfloat162 pair) { return {pair.x, pair.y}; }

namespace braid::emulated {

// a * b + c, rounded once.
template <class T>
T fused_multiply_add(T a, T b, T c) {
  const double product = static_cast<double>(float(a)) * static_cast<double>(float(b)), addend = float(c);
  const double sum = product + addend;
  const double part = sum - product;  // of the addend that the sum holds (Knuth's TwoSum)
  const double error = (product - (sum - part)) + (addend - part);
  return T(round_to_odd(sum, error));
}
// The greater one; NaN if one is.
template <class T>
T maximum_or_nan(T a, T b) {
  const float x = a, y = b;
  if (x != x || y != y) return T(__builtin_nanf(""));
  if (x == y) return std::bit_cast<uint16_t>(a) >> 15 != 0 ? b : a;  // +0 is the greater zero
  return x > y ? a : b;
}

}  // namespace braid::emulated

#define BRAID_PAIRS(Pair, T)                                                                       \
  inline Pair __hadd2_rn(Pair a, Pair b) {                                                         \
    return {T(float(a.x) + float(b.x)), T(float(a.y) + float(b.y))};                               \
  }                                                                                                \
  inline Pair __hmul2_rn(Pair a, Pair b) {                                                         \
    return {T(float(a.x) * float(b.x)), T(float(a.y) * float(b.y))};                               \
  }                                                                                                \
  inline Pair __hfma2(Pair a, Pair b, Pair c) {                                                    \
    return {braid::emulated::fused_multiply_add(a.x, b.x, c.x),                                    \
            braid::emulated::fused_multiply_add(a.y, b.y, c.y)};                                   \
  }                                                                                                \
  inline Pair __hmax2_nan(Pair a, Pair b) {                                                        \
    return {braid::emulated::maximum_or_nan(a.x, b.x), braid::emulated::maximum_or_nan(a.y, b.y)}; \
  }
BRAID_PAIRS(__half2, __half)
BRAID_PAIRS(__nv_bfloat162, __nv_bfloat16)
#undef BRAID_PAIRS
