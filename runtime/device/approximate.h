// The GPU's approximations of 1/x, 1/sqrt(x) and 2^x: one instruction each, without a call. NVIDIA states
// their errors as 1, 2 and 2 ulp. The first and the last treat denormal operands and results as 0. The
// emulated device errs by as much, up or down as the operand's bits say, so tests on it cover code that is
// built on these.
#pragma once

#include <cmath>
#include <cstdint>

namespace braid::rt::device::approximate {

// Relative.
constexpr double kReciprocalError = 0x1p-23, kRsqrtError = 0x1p-22, kExp2Error = 0x1p-22;

#ifdef BRAID_EMULATED_DEVICE

inline float wrong_by(double error, float operand, double exact) {
  uint32_t bits = __builtin_bit_cast(uint32_t, operand);
  bits = (bits ^ bits >> 15) * 0x2c1b3c6du;
  const int direction = static_cast<int>((bits ^ bits >> 13) % 3u) - 1;
  // Rounding adds half a unit to the error.
  return static_cast<float>(exact * (1 + direction * (error - 0x1p-24)));
}
inline float flushed(float x) { return ::fabsf(x) < 0x1p-126f ? ::copysignf(0.0f, x) : x; }

inline float reciprocal(float x) {
  const float y = flushed(x);
  return flushed(wrong_by(kReciprocalError, x, 1.0 / static_cast<double>(y)));
}
inline float rsqrt(float x) { return wrong_by(kRsqrtError, x, 1.0 / ::sqrt(static_cast<double>(x))); }
inline float exp2(float x) {
  if (flushed(x) == 0.0f) return 1.0f;
  return flushed(wrong_by(kExp2Error, x, ::exp2(static_cast<double>(x))));
}

#else

__device__ inline float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float rsqrt(float x) {
  float y;
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

#endif

}  // namespace braid::rt::device::approximate
