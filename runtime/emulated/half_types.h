// __half and __nv_bfloat16 with the conversions and operators of cuda_fp16.h and cuda_bf16.h that kernels
// use. Arithmetic is done in float and rounded once, as the GPU's instructions do for a single operation.
#pragma once

#include <bit>
#include <cstdint>

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
