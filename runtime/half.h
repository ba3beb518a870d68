// Sixteen-bit storage types. Generated code computes in float and converts on load and store. Conversions are
// branch-free integer arithmetic, so that loops with them vectorise on any machine. They round to nearest,
// ties to even.
#pragma once

#include <bit>
#include <cstdint>

namespace braid::rt {

struct Half {  // IEEE binary16
  uint16_t bits;
};
struct BFloat16 {  // the upper half of a float
  uint16_t bits;
};

inline float to_float(BFloat16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }

inline BFloat16 to_bfloat16(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const uint32_t quiet = (u >> 16) | 0x40u;  // a NaN stays one when its payload is cut off
  return {static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded)};
}

inline float to_float(Half x) {
  const uint32_t h = x.bits;
  const uint32_t magnitude = (h & 0x7fffu) << 13;
  // 2^112 moves the exponent from bias 15 to bias 127 and makes subnormals normal.
  const float scaled = std::bit_cast<float>(magnitude) * std::bit_cast<float>(0x77800000u);
  const uint32_t finite = std::bit_cast<uint32_t>(scaled);
  const uint32_t special = magnitude | 0x7f800000u;  // infinity and NaN
  return std::bit_cast<float>((magnitude >= 0x0f800000u ? special : finite) | ((h & 0x8000u) << 16));
}

inline Half to_half(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (u >> 16) & 0x8000u;
  const uint32_t a = u & 0x7fffffffu;
  const uint32_t normal = (a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13;
  // Adding 0.5 aligns a subnormal half's last bit with the float's last bit: the addition rounds.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(a) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
  uint32_t result = a < 0x38800000u ? subnormal : normal;
  result = a >= 0x477ff000u ? 0x7c00u : result;                          // rounds to infinity
  result = a > 0x7f800000u ? (0x7e00u | ((a >> 13) & 0x3ffu)) : result;  // NaN
  return {static_cast<uint16_t>(result | sign)};
}

// A float rounded to the nearest value of the narrow type.
inline float round_to_half(float x) { return to_float(to_half(x)); }
inline float round_to_bfloat16(float x) { return to_float(to_bfloat16(x)); }

// Floats that a loop of generated code computes before they are stored as halves together.
inline constexpr int64_t kHalfStrip = 256;

// Stores floats as to_half converts them, by the processor's instruction if it has one.
inline void store_halves(Half* to, const float* from, int64_t count) {
  int64_t k = 0;
#ifdef __F16C__
  using Floats = float __attribute__((vector_size(32)));
  using Words = short __attribute__((vector_size(16)));
  constexpr int kNearestEven = 0;
  for (; k + 8 <= count; k += 8) {
    Floats x;
    __builtin_memcpy(&x, from + k, sizeof x);
    const Words halves = __builtin_ia32_vcvtps2ph256(x, kNearestEven);
    __builtin_memcpy(to + k, &halves, sizeof halves);
  }
#endif
  for (; k < count; ++k) to[k] = to_half(from[k]);
}

}  // namespace braid::rt
