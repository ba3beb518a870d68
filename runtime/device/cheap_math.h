// Forms of operations that are cheaper than those of math.h and make no calls. Each states its error in ulp
// of f32, against the exact value. A denormal result errs by at most 2^-149 more. Zeros, infinities and NaN
// give what IEEE says. codegen/cuda/forms.h decides where they are used. tests/emulated/cheap_math_test.cc
// holds the errors.
#pragma once

#include "runtime/device/approximate.h"
#include "runtime/device/math.h"

namespace braid::rt::device::math::cheap {

// 1/y with 1 ulp, for y = 0, infinity, NaN, and 2^-125 <= |y| <= 2^125. One step of Newton doubles the
// correct digits.
__device__ inline float reciprocal_in_range(float y) {
  const float r = approximate::reciprocal(y);
  const float rest = ::fmaf(-y, r, 1.0f);  // NaN if y or r is infinite
  return rest == rest ? ::fmaf(r, rest, r) : r;
}

// A divisor of many quotients: x / y = x * factor * scale. The scale, a power of two, keeps the factor a
// normal number for every y. Both are above 1 or both are at most 1, so no product leaves the range before
// the quotient does.
struct Reciprocal {
  float factor, scale;

  template <class T>
  __device__ explicit Reciprocal(T divisor) {
    const float y = to_float(divisor), magnitude = ::fabsf(y);
    scale = magnitude < 0x1p-100f ? 0x1p64f : magnitude > 0x1p100f ? 0x1p-64f : 1.0f;
    factor = reciprocal_in_range(y * scale);
  }
};

// x / y with 2 ulp, before it is rounded to a half type.
template <class T>
__device__ inline T quotient(T x, const Reciprocal& y) {
  return from_float<T>(to_float(x) * y.factor * y.scale);
}
// The same with one product, for a divisor whose reciprocal 1 / y is a normal number: 1.5 ulp, given that
// reciprocal.
template <class T>
__device__ inline T product(T x, float reciprocal) {
  return from_float<T>(to_float(x) * reciprocal);
}

// 2 ulp.
template <class T>
__device__ inline T reciprocal(T x) {
  const Reciprocal r(x);
  return from_float<T>(r.factor * r.scale);
}

// 1 / sqrt(x) with 1 ulp.
template <class T>
__device__ inline T rsqrt(T x) {
  const float y = to_float(x), r = approximate::rsqrt(y);
  const float rest = ::fmaf(-(y * r), r, 1.0f);  // NaN if y is 0 or infinite
  return from_float<T>(rest == rest ? ::fmaf(0.5f * r, rest, r) : r);
}

// 1 ulp; 4 ulp if x is denormal.
template <class T>
__device__ inline T sqrt(T x) {
  const float y = to_float(x), r = approximate::rsqrt(y);
  const float root = y * r;  // NaN if y is 0 or infinite
  const float rest = ::fmaf(-root, root, y);
  const bool special = y == 0.0f || y == infinity<float>();
  return from_float<T>(special ? y : ::fmaf(0.5f * r, rest, root));
}

// 1 / (1 + exp(-x)) with 4 ulp, and 0 if exp(-x) is infinite.
template <class T>
__device__ inline T sigmoid(T x) {
  return from_float<T>(reciprocal(1.0f + ::expf(-to_float(x))));
}

// For results that are rounded to a half type: a relative error of 2^-17. The root of exp(x) is never
// denormal.
template <class T>
__device__ inline T exp_for_half(T x) {
  const float root = approximate::exp2(to_float(x) * 0.72134752f);
  return from_float<T>(root * root);
}

// For values that are added to a number of at least 1/2 and then rounded to a half type: an absolute error of
// 3e-7, which falls to 5e-8 for |x| > 3. 1 - erf(|x|) is 2 to the power of a polynomial, which itself is off
// by 2e-8. The polynomial's last coefficient is negative, so the power is 0 for all |x| above 4.
__device__ inline float erf_for_half(float x) {
  const float t = ::fabsf(x);
  float p = -4.535860325631519e-05f;
  p = ::fmaf(p, t, 4.4550770887233213e-04f);
  p = ::fmaf(p, t, -1.4894419017404742e-03f);
  p = ::fmaf(p, t, -7.746291123152197e-04f);
  p = ::fmaf(p, t, 2.825368051672049e-02f);
  p = ::fmaf(p, t, -1.4848161477654437e-01f);
  p = ::fmaf(p, t, -9.184163933273619e-01f);
  p = ::fmaf(p, t, -1.627908593056965f);
  return ::copysignf(1.0f - approximate::exp2(p * t), x);
}

}  // namespace braid::rt::device::math::cheap
