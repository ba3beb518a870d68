// Elementwise operations with the IR's semantics (ir/scalar.h) for every element type: half types compute in
// float and round once per operation, integers wrap, min and max propagate NaN, and nothing is undefined.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "runtime/device/convert.h"

namespace braid::rt::device::math {

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;
template <class T>
using EnableHalf = std::enable_if_t<kIsHalf<T>, int>;
template <class T>
using EnableInteger = std::enable_if_t<std::is_integral_v<T>, int>;
template <class T>
using EnableFloat = std::enable_if_t<std::is_floating_point_v<T>, int>;

// ---------------------------------------------------------------------------------------------- index
// arithmetic

template <class A, class B>
__host__ __device__ inline std::common_type_t<A, B> floor_div(A a, B b) {
  const std::common_type_t<A, B> q = a / b;
  return a % b < 0 ? q - 1 : q;
}
template <class A, class B>
__host__ __device__ inline std::common_type_t<A, B> floor_mod(A a, B b) {
  const std::common_type_t<A, B> r = a % b;
  return r < 0 ? r + b : r;
}
template <class A, class B>
__host__ __device__ inline std::common_type_t<A, B> minimum(A a, B b) {
  return a < b ? a : b;
}
template <class A, class B>
__host__ __device__ inline std::common_type_t<A, B> maximum(A a, B b) {
  return a > b ? a : b;
}

// ---------------------------------------------------------------------------------------------------
// conversions

template <class T>
__host__ __device__ inline T infinity() {
  if constexpr (kIsHalf<T>) {
    return from_float<T>(__builtin_huge_valf());
  } else {
    return static_cast<T>(__builtin_huge_val());
  }
}
template <class T>
__host__ __device__ inline T nan() {
  if constexpr (kIsHalf<T>) {
    return from_float<T>(__builtin_nanf(""));
  } else {
    return static_cast<T>(__builtin_nan(""));
  }
}

// Like the GPU's conversions, floats out of an integer's range saturate and NaN becomes 0. Integers keep
// their low bits. To bool: value != 0.
template <class To, class From>
__host__ __device__ inline To convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (kIsHalf<From>) {
    return convert<To>(to_float(x));
  } else if constexpr (kIsHalf<To>) {
    return from_float<To>(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // The bounds are powers of two, so they are exact in any floating-point type.
    constexpr int kBits = sizeof(To) * 8 - (std::is_signed_v<To> ? 1 : 0);
    constexpr From kAbove = static_cast<From>(uint64_t{1} << (kBits - 1)) * From(2);
    constexpr To kHighest = static_cast<To>(~uint64_t{0} >> (64 - kBits));
    constexpr To kLowest = std::is_signed_v<To> ? static_cast<To>(-kHighest - 1) : To(0);
    if (x != x) return To(0);
    if (x >= kAbove) return kHighest;
    if (x <= static_cast<From>(kLowest)) return kLowest;
    return static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

// -----------------------------------------------------------------------------------------------------
// arithmetic

// Signed overflow is undefined in C++; it wraps here.
template <class T>
using Bits = std::make_unsigned_t<std::conditional_t<std::is_same_v<T, bool>, unsigned char, T>>;

// Avoids a comparison that is pointless for unsigned types.
template <class T>
__device__ inline bool negative(T a) {
  if constexpr (std::is_unsigned_v<T>) {
    return false;
  } else {
    return a < T(0);
  }
}

template <class T>
__device__ inline T add(T a, T b) {
  if constexpr (kIsHalf<T>) {
    return from_float<T>(to_float(a) + to_float(b));
  } else if constexpr (std::is_same_v<T, bool>) {
    return a || b;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}
template <class T>
__device__ inline T sub(T a, T b) {
  if constexpr (kIsHalf<T>) {
    return from_float<T>(to_float(a) - to_float(b));
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  } else {
    return a - b;
  }
}
template <class T>
__device__ inline T mul(T a, T b) {
  if constexpr (kIsHalf<T>) {
    return from_float<T>(to_float(a) * to_float(b));
  } else if constexpr (std::is_same_v<T, bool>) {
    return a && b;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
  }
}
// Integers round towards zero; division by zero yields 0.
template <class T>
__device__ inline T div(T a, T b) {
  if constexpr (kIsHalf<T>) {
    return from_float<T>(to_float(a) / to_float(b));
  } else if constexpr (std::is_integral_v<T>) {
    if (b == T(0)) return T(0);
    if constexpr (std::is_signed_v<T>) {
      if (b == T(-1)) return sub(T(0), a);
    }
    return static_cast<T>(a / b);
  } else {
    return a / b;
  }
}
// Takes the sign of the dividend, as in C; integers modulo zero yield 0.
template <class T>
__device__ inline T fmod(T a, T b) {
  if constexpr (kIsHalf<T>) {
    return from_float<T>(::fmodf(to_float(a), to_float(b)));
  } else if constexpr (std::is_same_v<T, float>) {
    return ::fmodf(a, b);
  } else if constexpr (std::is_same_v<T, double>) {
    return ::fmod(a, b);
  } else {
    if (b == T(0)) return T(0);
    if constexpr (std::is_signed_v<T>) {
      if (b == T(-1)) return T(0);
    }
    return static_cast<T>(a % b);
  }
}
// Takes the sign of the divisor.
template <class T>
__device__ inline T mod(T a, T b) {
  if constexpr (kIsHalf<T>) {
    return from_float<T>(mod(to_float(a), to_float(b)));
  } else {
    const T r = math::fmod(a, b);
    return r != T(0) && negative(r) != negative(b) ? add(r, b) : r;
  }
}
template <class T>
__device__ inline T min(T a, T b) {
  return a < b || a != a ? a : b;
}
template <class T>
__device__ inline T max(T a, T b) {
  return a > b || a != a ? a : b;
}
template <class T>
__device__ inline T pow(T a, T b) {
  if constexpr (kIsHalf<T>) {
    return from_float<T>(::powf(to_float(a), to_float(b)));
  } else if constexpr (std::is_same_v<T, float>) {
    return ::powf(a, b);
  } else if constexpr (std::is_same_v<T, double>) {
    return ::pow(a, b);
  } else {
    if constexpr (std::is_signed_v<T>) {
      if (b < T(0)) return a == T(1) ? T(1) : a == T(-1) ? (b % T(2) == T(0) ? T(1) : T(-1)) : T(0);
    }
    T result = T(1);
    for (Bits<T> e = static_cast<Bits<T>>(b); e != 0; e = static_cast<Bits<T>>(e >> 1)) {
      if (e & 1) result = mul(result, a);
      a = mul(a, a);
    }
    return result;
  }
}

template <class T>
__device__ inline T neg(T a) {
  if constexpr (kIsHalf<T>) {
    return from_float<T>(-to_float(a));
  } else if constexpr (std::is_integral_v<T>) {
    return sub(T(0), a);
  } else {
    return -a;
  }
}
template <class T>
__device__ inline T abs(T a) {
  if constexpr (kIsHalf<T>) {
    return from_float<T>(::fabsf(to_float(a)));
  } else if constexpr (std::is_same_v<T, float>) {
    return ::fabsf(a);
  } else if constexpr (std::is_same_v<T, double>) {
    return ::fabs(a);
  } else {
    return negative(a) ? neg(a) : a;
  }
}
template <class T>
__device__ inline T sign(T a) {
  if constexpr (kIsHalf<T>) {
    return from_float<T>(sign(to_float(a)));
  } else {
    if (a != a) return a;
    return a > T(0) ? T(1) : negative(a) ? static_cast<T>(-1) : T(0);
  }
}
template <class T>
__device__ inline bool is_nan(T a) {
  return a != a;
}
template <class T>
__device__ inline bool is_inf(T a) {
  if constexpr (kIsHalf<T>) {
    return is_inf(to_float(a));
  } else {
    return a == infinity<T>() || a == -infinity<T>();
  }
}

// --------------------------------------------------------------------------------------------------- bits

template <class T>
__device__ inline T bit_not(T a) {
  return static_cast<T>(~a);
}
template <class T>
__device__ inline T bit_and(T a, T b) {
  return static_cast<T>(a & b);
}
template <class T>
__device__ inline T bit_or(T a, T b) {
  return static_cast<T>(a | b);
}
template <class T>
__device__ inline T bit_xor(T a, T b) {
  return static_cast<T>(a ^ b);
}
// Amounts count as unsigned. By all bits or more: 0, or -1 for a negative number shifted to the right.
template <class T>
__device__ inline T shift_left(T a, T b) {
  const Bits<T> n = static_cast<Bits<T>>(b);
  return n < sizeof(T) * 8 ? static_cast<T>(static_cast<uint64_t>(a) << n) : T(0);
}
template <class T>
__device__ inline T shift_right(T a, T b) {
  const Bits<T> n = static_cast<Bits<T>>(b);
  return n < sizeof(T) * 8 ? static_cast<T>(a >> n) : negative(a) ? static_cast<T>(-1) : T(0);
}
// The value of another type with the same bits; any byte but 0 is true.
template <class To, class From>
__device__ inline To same_bits(From a) {
  static_assert(sizeof(To) == sizeof(From), "a bitcast keeps the size");
  if constexpr (std::is_same_v<To, From>) {
    return a;
  } else if constexpr (std::is_same_v<To, bool>) {
    return same_bits<uint8_t>(a) != 0;
  } else {
    To result;
    memcpy(&result, &a, sizeof(To));
    return result;
  }
}

// ------------------------------------------------------------------------------------------------- floats
// only

// One function per type; half types go through float.
#define BRAID_DEVICE_MATH(name, in_float, in_double)  \
  template <class T>                                  \
  __device__ inline T name(T x) {                     \
    if constexpr (kIsHalf<T>) {                       \
      return from_float<T>(name(to_float(x)));        \
    } else if constexpr (std::is_same_v<T, float>) {  \
      return in_float;                                \
    } else if constexpr (std::is_same_v<T, double>) { \
      return in_double;                               \
    } else {                                          \
      return x; /* rounding of integers */            \
    }                                                 \
  }
BRAID_DEVICE_MATH(exp, ::expf(x), ::exp(x))
BRAID_DEVICE_MATH(expm1, ::expm1f(x), ::expm1(x))
BRAID_DEVICE_MATH(log, ::logf(x), ::log(x))
BRAID_DEVICE_MATH(log1p, ::log1pf(x), ::log1p(x))
BRAID_DEVICE_MATH(sqrt, ::sqrtf(x), ::sqrt(x))
BRAID_DEVICE_MATH(rsqrt, 1.0f / ::sqrtf(x), 1.0 / ::sqrt(x))
BRAID_DEVICE_MATH(reciprocal, 1.0f / x, 1.0 / x)
BRAID_DEVICE_MATH(erf, ::erff(x), ::erf(x))
BRAID_DEVICE_MATH(tanh, ::tanhf(x), ::tanh(x))
BRAID_DEVICE_MATH(sigmoid, 1.0f / (1.0f + ::expf(-x)), 1.0 / (1.0 + ::exp(-x)))
BRAID_DEVICE_MATH(sin, ::sinf(x), ::sin(x))
BRAID_DEVICE_MATH(cos, ::cosf(x), ::cos(x))
BRAID_DEVICE_MATH(tan, ::tanf(x), ::tan(x))
BRAID_DEVICE_MATH(asin, ::asinf(x), ::asin(x))
BRAID_DEVICE_MATH(acos, ::acosf(x), ::acos(x))
BRAID_DEVICE_MATH(atan, ::atanf(x), ::atan(x))
BRAID_DEVICE_MATH(sinh, ::sinhf(x), ::sinh(x))
BRAID_DEVICE_MATH(cosh, ::coshf(x), ::cosh(x))
BRAID_DEVICE_MATH(asinh, ::asinhf(x), ::asinh(x))
BRAID_DEVICE_MATH(acosh, ::acoshf(x), ::acosh(x))
BRAID_DEVICE_MATH(atanh, ::atanhf(x), ::atanh(x))
BRAID_DEVICE_MATH(floor, ::floorf(x), ::floor(x))
BRAID_DEVICE_MATH(ceil, ::ceilf(x), ::ceil(x))
BRAID_DEVICE_MATH(round, ::rintf(x), ::rint(x))  // ties to even
#undef BRAID_DEVICE_MATH

// --------------------------------------------------------------------------------------------- threads and
// checks

// This thread's first index, and the stride, of a one-dimensional grid-stride loop over [0, n).
template <class Index>
__device__ inline Index first_index() {
  return static_cast<Index>(blockIdx.x) * static_cast<Index>(blockDim.x) + static_cast<Index>(threadIdx.x);
}
template <class Index>
__device__ inline Index index_stride() {
  return static_cast<Index>(gridDim.x) * static_cast<Index>(blockDim.x);
}

// An index that comes from data. If it is out of range, records the site (the smallest one wins, as the flag
// holds INT_MAX - site) and continues with 0, so that nothing is read out of bounds.
template <class T, class Index>
__device__ inline T checked_index(T value, Index size, int* error, int site) {
  if (value >= T(0) && static_cast<uint64_t>(value) < static_cast<uint64_t>(size)) return value;
  atomicMax(error, 0x7fffffff - site);
  return T(0);
}

}  // namespace braid::rt::device::math
