// Elementary functions of generated loops: branch-free and inlined, so that the host compiler vectorises the
// enclosing loop. Largest errors over all of float, with FMA (checked by tests/codegen/vec_math_test.cc):
//
//   exp 1.5 ulp   log 2   tanh 3   erf 2   sigmoid 3   sin, cos 1.6   asin 2.5   acos, rsqrt 1.5
//   atan 2   pow and all others 1
//
// Infinities, NaN, subnormals and (for sin, cos) huge arguments give libm's results. Doubles use libm,
// through the compiler's builtins: a host compiler parses <cmath> for longer than this file. If the caller
// rounds in one direction, exp is right to 1e-4 of its result, and tanh to 1e-7.
//
// Compile with -fno-math-errno -fno-trapping-math -ffp-contract=fast: the first two turn sqrt and rounding
// into instructions, the last one allows FMA; they change no value otherwise. -ffast-math is NOT allowed: it
// removes NaN handling and the exact cancellations on which these functions rely.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace braid::rt {

namespace vec {

inline uint32_t bits(float x) { return std::bit_cast<uint32_t>(x); }
inline float from_bits(uint32_t u) { return std::bit_cast<float>(u); }
inline uint64_t bits(double x) { return std::bit_cast<uint64_t>(x); }
inline double from_bits(uint64_t u) { return std::bit_cast<double>(u); }

// Natural logarithm of a positive, normal double, to about 1e-14.
inline double log_core(double x) {
  const uint64_t u = bits(x);
  // Mantissa in [sqrt(1/2), sqrt(2)).
  const uint64_t shifted = u - uint64_t{0x3fe6a09e667f3bcd};
  const int64_t n = static_cast<int64_t>(shifted) >> 52;
  const double m = from_bits(u - (static_cast<uint64_t>(n) << 52));
  // |n| < 2^11: exact with the magic number; a conversion of int64 would need AVX-512.
  const double dn = from_bits(static_cast<uint64_t>(n) + uint64_t{0x4338000000000000}) - 6755399441055744.0;
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 2.0 / 17.0;
  p = p * z + 2.0 / 15.0;
  p = p * z + 2.0 / 13.0;
  p = p * z + 2.0 / 11.0;
  p = p * z + 2.0 / 9.0;
  p = p * z + 2.0 / 7.0;
  p = p * z + 2.0 / 5.0;
  p = p * z + 2.0 / 3.0;
  p = p * z;
  return dn * 0.6931471805599453 + (s * p + 2.0 * s);
}

// exp of a double in [-750, 750], to about 1e-14.
inline double exp_core(double x) {
  const double t = x * 1.4426950408889634 + 6755399441055744.0;
  const double n = t - 6755399441055744.0;
  double r = x - n * 0.6931471803691238;
  r = r - n * 1.9082149292705877e-10;
  double p = 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  const uint64_t k = bits(t) - uint64_t{0x4338000000000000};
  return p * from_bits((k + 1023) << 52);
}

// The remainder of x after the nearest multiple of pi/2, and that multiple modulo 4.
struct Reduced {
  double r;
  uint64_t quadrant;
};
inline constexpr double kTrigTable[78][2] = {
#include "runtime/trig_table.inc"
};
inline Reduced reduce_angle(float x) {
  const uint32_t u = bits(x);
  const int32_t exponent = static_cast<int32_t>((u >> 23) & 0xffu);
  const bool huge = exponent >= 50 + 127;  // |x| >= 2^50: m * (2^k mod 2 pi) instead of m * 2^k
  const int32_t row = huge ? (exponent < 255 ? exponent - (50 + 127) : 77) : 0;
  const float m = from_bits((u & 0x807fffffu) | ((23 + 127) << 23));
  const double hi = static_cast<double>(m) * kTrigTable[row][0];
  const double lo = __builtin_fma(static_cast<double>(m), kTrigTable[row][0], -hi) +
                    static_cast<double>(m) * kTrigTable[row][1];
  const double whole = exponent == 255 ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(x);
  const double a = (huge & (exponent < 255)) ? hi : whole;
  const double b = huge ? lo : 0.0;
  const double magic = 6755399441055744.0;
  const double t = a * 0.6366197723675814 + magic;
  const double n = t - magic;
  double r = __builtin_fma(-n, 1.5707963267948966, a);
  r = __builtin_fma(-n, 6.123233995736766e-17, r) + b;
  return {r, bits(t)};
}
inline double sin_core(double r) {  // |r| <= pi/4 and a little
  const double z = r * r;
  double p = -2.5052108385441720e-8;
  p = p * z + 2.7557319223985893e-6;
  p = p * z - 1.9841269841269841e-4;
  p = p * z + 8.3333333333333332e-3;
  p = p * z - 1.6666666666666666e-1;
  return r + r * z * p;
}
inline double cos_core(double r) {
  const double z = r * r;
  double p = 2.0876756987868099e-9;
  p = p * z - 2.7557319223985888e-7;
  p = p * z + 2.4801587301587302e-5;
  p = p * z - 1.3888888888888889e-3;
  p = p * z + 4.1666666666666664e-2;
  return 1.0 - 0.5 * z + z * z * p;
}

// log(1 + x) for finite x > -1.
inline double log1p_core(double x) {
  const double w = 1.0 + x;
  return log_core(w) + (x - (w - 1.0)) / w;  // the second term is what rounding took from w
}

// exp(x) - 1 for |x| < 1/2.
inline double expm1_core(double x) {
  double p = 1.0 / 3628800.0;
  p = p * x + 1.0 / 362880.0;
  p = p * x + 1.0 / 40320.0;
  p = p * x + 1.0 / 5040.0;
  p = p * x + 1.0 / 720.0;
  p = p * x + 1.0 / 120.0;
  p = p * x + 1.0 / 24.0;
  p = p * x + 1.0 / 6.0;
  p = p * x + 0.5;
  return p * (x * x) + x;
}

// exp(r) - 1 for |r| < 0.694.
inline float expm1_near_zero(float r) {
  float p = 2.44398161e-5f;
  p = p * r + 2.01100629e-4f;
  p = p * r + 1.38937111e-3f;
  p = p * r + 8.33252631e-3f;
  p = p * r + 4.16665263e-2f;
  p = p * r + 1.66666746e-1f;
  p = p * r + 0.5f;
  return p * (r * r) + r;
}
// exp(x - n ln 2) for n = 2 * half next to x / ln 2.
inline float exp_remainder(float x, float half) {
  float r = x - half * 1.386291504f;
  r = r - half * 2.85721354e-6f;
  return expm1_near_zero(r) + 1.0f;
}
// exp(x) for |x| < 80: n is added to the exponent.
inline float exp_within(float x) {
  const float magic = 12582912.0f;  // 1.5 * 2^23: the lowest bits of t are n / 2
  const float t = x * 0.721347520f + magic;
  return from_bits(bits(exp_remainder(x, t - magic)) + (bits(t) << 24));
}
// exp(x) for x >= -104, NaN for NaN. 2^n is the square of 2^(n/2), which is never subnormal and whose biased
// exponent is in the lowest bits of t.
inline float exp_above(float x) {
  const float magic = 12583039.0f;  // 1.5 * 2^23 + 127
  const auto t = static_cast<int32_t>(bits(x * 0.721347520f + magic));
  const auto biased = static_cast<uint32_t>(t < 0x4b4000c0 ? t : 0x4b4000c0);  // 2^130 is infinite
  const float root = from_bits(biased << 23);
  return exp_remainder(x, from_bits(biased) - magic) * root * root;
}

}  // namespace vec

inline float vexp(float x) {
  const float y = vec::exp_above(x);
  return x < -104.0f ? 0.0f : y;
}

inline float vlog(float x) {
  const bool tiny = x < 1.17549435e-38f;
  const float scaled = tiny ? x * 8388608.0f : x;
  const uint32_t u = vec::bits(scaled);
  const int32_t n = static_cast<int32_t>(u - 0x3f3504f3u) >> 23;  // mantissa in [sqrt(1/2), sqrt(2))
  const float m = vec::from_bits(u - (static_cast<uint32_t>(n) << 23)) - 1.0f;
  const float dn = static_cast<float>(n) - (tiny ? 23.0f : 0.0f);
  const float z = m * m;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  float y = m * z * p;
  y = y + dn * -2.12194440e-4f;
  y = y - 0.5f * z;
  float result = m + y;
  result = result + dn * 0.693359375f;
  const float infinity = std::numeric_limits<float>::infinity();
  result = x == infinity ? x : result;
  result = x == 0.0f ? -infinity : result;
  result = x < 0.0f ? std::numeric_limits<float>::quiet_NaN() : result;
  return x != x ? x : result;
}

// m / (m + 2) for m = exp(2 |x|) - 1, which is exact near zero.
inline float vtanh(float x) {
  const float a = __builtin_fabsf(x);
  const float twice = a > 10.0f ? 20.0f : a + a;  // from 10 on, the result is 1
  const float magic = 12583039.0f;                // 1.5 * 2^23 + 127
  const float t = twice * 1.44269504f + magic;
  const float n = t - magic;
  float r = twice - n * 0.693145752f;
  r = r - n * 1.42860677e-6f;
  const float power = vec::from_bits(vec::bits(t) << 23);
  const float m = vec::expm1_near_zero(r) * power + (power - 1.0f);
  return __builtin_copysignf(m / (m + 2.0f), x);
}

inline float verf(float x) {
  // Minimax polynomials by N. Juffa (public), for erf(x)/x near zero and for log(erfc(|x|)) beyond.
  const float full = __builtin_fabsf(x);
  const float t = full > 4.0f ? 4.0f : full;
  const float s = t * t;
  float r = -1.72853470e-5f * t + 3.83197126e-4f;
  const float u = -3.88396438e-3f * t + 2.42546219e-2f;
  r = r * s + u;
  r = r * t - 1.06777877e-1f;
  r = r * t - 6.34846687e-1f;
  r = r * t - 1.28717512e-1f;
  r = r * t - t;
  const float large = __builtin_copysignf(1.0f - vec::exp_within(r), x);
  float p = -5.96761703e-4f;
  p = p * s + 4.99119423e-3f;
  p = p * s - 2.67681349e-2f;
  p = p * s + 1.12819925e-1f;
  p = p * s - 3.76125336e-1f;
  p = p * s + 1.28379166e-1f;
  const float small = p * x + x;
  return full > 0.927734375f ? large : small;
}

inline float vsigmoid(float x) {
  const float e = vexp(-__builtin_fabsf(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

inline float vsin(float x) {
  const vec::Reduced a = vec::reduce_angle(x);
  const double s = vec::sin_core(a.r);
  const double c = vec::cos_core(a.r);
  const double y = (a.quadrant & 1u) ? c : s;
  const double result = (a.quadrant & 2u) ? -y : y;
  return x == 0.0f ? x : static_cast<float>(result);
}

inline float vcos(float x) {
  const vec::Reduced a = vec::reduce_angle(x);
  const double s = vec::sin_core(a.r);
  const double c = vec::cos_core(a.r);
  const double y = (a.quadrant & 1u) ? s : c;
  return static_cast<float>(((a.quadrant + 1u) & 2u) ? -y : y);
}

// The same for arguments that are not wide: in float, with a remainder of three steps, each exact or rounded
// once (the first one is exact for multiples of at most 13 bits). Up to 1.6 ulp.
inline bool is_wide_angle(float x) { return !(__builtin_fabsf(x) <= 8192.0f); }
#ifdef __FMA__
namespace vec {
inline float narrow_sine(float x, uint32_t quarter_turns) {
  const float magic = 12582912.0f;  // 1.5 * 2^23
  const float t = __builtin_fmaf(x, 0.63661975f, magic);
  const float n = t - magic;
  float r = __builtin_fmaf(n, -1.57079637f, x);
  r = __builtin_fmaf(n, 4.37113883e-8f, r);
  r = __builtin_fmaf(n, 1.71512451e-15f, r);
  const uint32_t quadrant = bits(t) + quarter_turns;
  const float z = r * r;
  float s = -0x1.994cf8p-13f;
  s = __builtin_fmaf(s, z, 0x1.11075cp-7f);
  s = __builtin_fmaf(s, z, -0x1.555546p-3f);
  s = __builtin_fmaf(r * z, s, r);
  float c = 0x1.9a00ccp-16f;
  c = __builtin_fmaf(c, z, -0x1.6c0c86p-10f);
  c = __builtin_fmaf(c, z, 0x1.55554ap-5f);
  c = __builtin_fmaf(c, z, -0.5f);
  c = __builtin_fmaf(c, z, 1.0f);
  const float y = (quadrant & 1u) ? c : s;
  return from_bits(bits(y) ^ ((quadrant & 2u) << 30));
}
}  // namespace vec
inline float vsin_narrow(float x) { return x == 0.0f ? x : vec::narrow_sine(x, 0); }
inline float vcos_narrow(float x) { return vec::narrow_sine(x, 1); }
#else
inline float vsin_narrow(float x) { return vsin(x); }
inline float vcos_narrow(float x) { return vcos(x); }
#endif

inline float vpow(float x, float y) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double a = __builtin_fabs(static_cast<double>(x));  // a subnormal float is a normal double
  double l = vec::log_core(a);
  l = a == 0.0 ? -infinity : l;
  l = a == infinity ? infinity : l;
  l = a == 1.0 ? 0.0 : l;
  double e = l * static_cast<double>(y);
  e = a == 1.0 ? 0.0 : e;  // also for infinite y
  e = e > 200.0 ? 200.0 : e;
  e = e < -200.0 ? -200.0 : e;
  double r = vec::exp_core(e);
  r = e >= 200.0 ? infinity : r;
  r = e <= -200.0 ? 0.0 : r;
  const float t = __builtin_rintf(y);
  const bool integer = t == y;  // also infinities
  const float h = y * 0.5f;
  const bool odd = integer & (__builtin_rintf(h) != h);
  const bool negative = vec::bits(x) >> 31;
  r = (negative & odd) ? -r : r;
  r = ((x < 0.0f) & !integer & (a != infinity)) ? std::numeric_limits<double>::quiet_NaN() : r;
  r = (x != x) ? static_cast<double>(x) : r;
  r = (y != y) ? static_cast<double>(y) : r;
  r = ((x == 1.0f) | (y == 0.0f)) ? 1.0 : r;
  return static_cast<float>(r);
}

inline float vexpm1(float x) {
  const double d = static_cast<double>(x);
  double c = d > 90.0 ? 90.0 : d;  // exp(90) is beyond float
  c = c < -90.0 ? -90.0 : c;
  const double y = __builtin_fabs(c) < 0.5 ? vec::expm1_core(c) : vec::exp_core(c) - 1.0;
  return static_cast<float>(y);
}

inline float vlog1p(float x) {
  const float infinity = std::numeric_limits<float>::infinity();
  float y = static_cast<float>(vec::log1p_core(static_cast<double>(x)));
  y = x == infinity ? x : y;
  y = x == -1.0f ? -infinity : y;
  y = x < -1.0f ? std::numeric_limits<float>::quiet_NaN() : y;
  return x == 0.0f ? x : y;
}

inline float vtan(float x) {
  const vec::Reduced a = vec::reduce_angle(x);
  const double s = vec::sin_core(a.r);
  const double c = vec::cos_core(a.r);
  const bool odd = a.quadrant & 1u;
  const double y = (odd ? -c : s) / (odd ? s : c);
  return x == 0.0f ? x : static_cast<float>(y);
}

namespace vec {

// The arc sine of a in [0, 1], or, if a > 1/2, half of what it lacks to pi/2.
struct ArcSine {
  float y;
  bool far;
};
inline ArcSine arc_sine(float a) {
  const bool far = a > 0.5f;
  const float z = far ? 0.5f - 0.5f * a : a * a;
  const float t = far ? __builtin_sqrtf(z) : a;
  float p = 4.21662863e-2f;
  p = p * z + 2.41795263e-2f;
  p = p * z + 4.54703741e-2f;
  p = p * z + 7.49529765e-2f;
  p = p * z + 1.66667525e-1f;
  return {t * z * p + t, far};
}

}  // namespace vec

inline float vasin(float x) {
  const vec::ArcSine s = vec::arc_sine(__builtin_fabsf(x));
  return __builtin_copysignf(s.far ? 1.57079637f - (2.0f * s.y + 4.37113883e-8f) : s.y, x);
}

inline float vacos(float x) {
  const vec::ArcSine s = vec::arc_sine(__builtin_fabsf(x));
  const float near = 1.57079637f - (__builtin_copysignf(s.y, x) + 4.37113883e-8f);
  const float twice = 2.0f * s.y;
  const float far = x < 0.0f ? 3.14159274f - (twice + 8.74227766e-8f) : twice;
  return s.far ? far : near;
}

inline float vatan(float x) {
  const float a = __builtin_fabsf(x);
  const bool steep = a > 1.0f;
  const float t = (steep ? 1.0f : a) / (steep ? a : 1.0f);
  const float z = t * t;
  float p = -1.79359389e-3f;
  p = p * z + 1.09144810e-2f;
  p = p * z - 3.11776130e-2f;
  p = p * z + 5.79573595e-2f;
  p = p * z - 8.40343665e-2f;
  p = p * z + 1.09521811e-1f;
  p = p * z - 1.42642408e-1f;
  p = p * z + 1.99985482e-1f;
  p = p * z - 3.33332991e-1f;
  const float y = t * z * p + t;
  return __builtin_copysignf(steep ? 1.57079637f - (y + 4.37113883e-8f) : y, x);
}

inline float vsinh(float x) {
  const double d = static_cast<double>(x);
  const double a = __builtin_fabs(d);
  const double e = vec::exp_core(a > 91.0 ? 91.0 : a);  // beyond, the result is infinite
  const double z = d * d;
  double p = 1.0 / 362880.0;
  p = p * z + 1.0 / 5040.0;
  p = p * z + 1.0 / 120.0;
  p = p * z + 1.0 / 6.0;
  const double small = d + d * z * p;
  const double large = __builtin_copysign(0.5 * (e - 1.0 / e), d);
  return static_cast<float>(a < 0.5 ? small : large);
}

inline float vcosh(float x) {
  const double a = __builtin_fabs(static_cast<double>(x));
  const double e = vec::exp_core(a > 91.0 ? 91.0 : a);
  return static_cast<float>(0.5 * (e + 1.0 / e));
}

inline float vasinh(float x) {
  const double a = __builtin_fabs(static_cast<double>(x));
  const double z = a * a;
  const double y = vec::log1p_core(a + z / (1.0 + __builtin_sqrt(z + 1.0)));
  const float result = __builtin_copysignf(static_cast<float>(y), x);
  return __builtin_fabsf(x) == std::numeric_limits<float>::infinity() ? x : result;
}

inline float vacosh(float x) {
  const double t = static_cast<double>(x) - 1.0;
  const float y = static_cast<float>(vec::log1p_core(t + __builtin_sqrt(t * (t + 2.0))));
  const float result = x < 1.0f ? std::numeric_limits<float>::quiet_NaN() : y;
  return x == std::numeric_limits<float>::infinity() ? x : result;
}

inline float vatanh(float x) {
  const double a = __builtin_fabs(static_cast<double>(x));
  const float y = static_cast<float>(0.5 * vec::log1p_core(2.0 * a / (1.0 - a)));
  float result = a == 1.0 ? std::numeric_limits<float>::infinity() : y;
  result = a > 1.0 ? std::numeric_limits<float>::quiet_NaN() : result;
  return __builtin_copysignf(result, x);
}

inline float vsqrt(float x) { return __builtin_sqrtf(x); }
inline float vrsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
inline float vfloor(float x) { return __builtin_floorf(x); }
inline float vceil(float x) { return __builtin_ceilf(x); }
inline float vround(float x) { return __builtin_rintf(x); }  // ties to even, as ONNX Round
inline float vabs(float x) { return __builtin_fabsf(x); }

inline double vexp(double x) { return __builtin_exp(x); }
inline double vexpm1(double x) { return __builtin_expm1(x); }
inline double vlog(double x) { return __builtin_log(x); }
inline double vlog1p(double x) { return __builtin_log1p(x); }
inline double vtanh(double x) { return __builtin_tanh(x); }
inline double verf(double x) { return __builtin_erf(x); }
inline double vsigmoid(double x) {
  const double e = __builtin_exp(-__builtin_fabs(x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}
inline double vsin(double x) { return __builtin_sin(x); }
inline double vcos(double x) { return __builtin_cos(x); }
inline double vtan(double x) { return __builtin_tan(x); }
inline double vasin(double x) { return __builtin_asin(x); }
inline double vacos(double x) { return __builtin_acos(x); }
inline double vatan(double x) { return __builtin_atan(x); }
inline double vsinh(double x) { return __builtin_sinh(x); }
inline double vcosh(double x) { return __builtin_cosh(x); }
inline double vasinh(double x) { return __builtin_asinh(x); }
inline double vacosh(double x) { return __builtin_acosh(x); }
inline double vatanh(double x) { return __builtin_atanh(x); }
// GCC's vectoriser (12.2) takes a constant exponent 0.5 for a square root, which differs at -0 and -infinity.
inline double vpow(double x, double y) {
  asm("" : "+m"(y));
  return __builtin_pow(x, y);
}
inline double vsqrt(double x) { return __builtin_sqrt(x); }
inline double vrsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
inline double vfloor(double x) { return __builtin_floor(x); }
inline double vceil(double x) { return __builtin_ceil(x); }
inline double vround(double x) { return __builtin_rint(x); }
inline double vabs(double x) { return __builtin_fabs(x); }

}  // namespace braid::rt
