// Support for the kernels of generated CPU programs: addresses, wrapping integer arithmetic, reductions that
// vectorise, casts as ONNX defines them. Generated source includes it, and our own kernels.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "runtime/half.h"
#include "runtime/team.h"
#include "runtime/transpose.h"
#include "runtime/vec_math.h"

// Inlines the body of a loop: otherwise its stores of bytes could change what it has captured.
#define BRAID_INLINED __attribute__((always_inline))

namespace braid::rt {

// -------------------------------------------------------------------------------------------------------
// addresses

template <class T>
inline T* at(std::byte* base, int64_t byte_offset) {
  return reinterpret_cast<T*>(base + byte_offset);
}
template <class T>
inline const T* at(const std::byte* base, int64_t byte_offset) {
  return reinterpret_cast<const T*>(base + byte_offset);
}

// --------------------------------------------------------------------------------------------------- index
// arithmetic

// Rounds towards minus infinity; b > 0.
inline int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
inline int64_t floor_mod(int64_t a, int64_t b) { return a % b + (a % b < 0 ? b : 0); }
inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

// An index of an index tensor that is out of range. The first one of a step is kept.
struct IndexError {
  int32_t site = -1;  // index of the check_index in the program
  int64_t value = 0;
  int64_t size = 0;
};
[[gnu::noinline, gnu::cold]] inline int64_t bad_index(int64_t value, int64_t size, IndexError* error,
                                                      int32_t site) {
  int32_t none = -1;
  if (__atomic_compare_exchange_n(&error->site, &none, site, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    error->value = value;
    error->size = size;
  }
  return 0;
}
inline int64_t check_index(int64_t value, int64_t size, IndexError* error, int32_t site) {
  return static_cast<uint64_t>(value) < static_cast<uint64_t>(size) ? value
                                                                    : bad_index(value, size, error, site);
}
// Hides an index that is made of truth values from the compiler: GCC (12.2, -O3) reads a[truth ? 1 : 0] with
// the vector's mask, which is all ones for 1, as offsets.
template <class T>
inline T opaque_index(T x) {
  asm("" : "+r"(x));
  return x;
}

// The same for the condition of a load, whose loop then has no vectors (KernelEmitter::lies_beside_another).
inline bool opaque_truth(bool x) {
  asm("" : "+r"(x));
  return x;
}

// ---------------------------------------------------------------------------------------------------------
// storage

// Values of f16 and bf16 tensors are floats in registers.
inline float load(const Half& x) { return to_float(x); }
inline float load(const BFloat16& x) { return to_float(x); }
inline bool load(const bool& x) {
  return reinterpret_cast<const uint8_t&>(x) != 0;  // callers may pass any non-zero byte
}
template <class T>
inline T load(const T& x) {
  return x;
}
inline void store(Half& x, float v) { x = to_half(v); }
inline void store(BFloat16& x, float v) { x = to_bfloat16(v); }
template <class T>
inline void store(T& x, T v) {
  x = v;
}

// -------------------------------------------------------------------------------------------------------
// arithmetic

template <class T>
using Wide = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;

// Integers wrap around: computed in the unsigned type, where this is defined.
template <class T>
inline T wrap_add(T a, T b) {
  return static_cast<T>(static_cast<Wide<T>>(a) + static_cast<Wide<T>>(b));
}
template <class T>
inline T wrap_sub(T a, T b) {
  return static_cast<T>(static_cast<Wide<T>>(a) - static_cast<Wide<T>>(b));
}
template <class T>
inline T wrap_mul(T a, T b) {
  return static_cast<T>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b));
}
template <class T>
inline T wrap_neg(T a) {
  return wrap_sub(T{0}, a);
}
// Division by zero gives 0; the smallest integer by -1 wraps.
template <class T>
inline T int_div(T a, T b) {
  if constexpr (std::is_signed_v<T>) {
    if (b == T{-1}) return wrap_neg(a);
  }
  return b == T{0} ? T{0} : static_cast<T>(a / b);
}
template <class T>
inline T int_fmod(T a, T b) {  // sign of the dividend
  if constexpr (std::is_signed_v<T>) {
    if (b == T{-1}) return T{0};
  }
  return b == T{0} ? T{0} : static_cast<T>(a % b);
}
template <class T>
inline T int_mod(T a, T b) {  // sign of the divisor
  const T r = int_fmod(a, b);
  return (r != 0 && ((r < 0) != (b < 0))) ? static_cast<T>(r + b) : r;
}
template <class T>
inline T int_pow(T base, T exponent) {
  if constexpr (std::is_signed_v<T>) {
    if (exponent < 0) return base == 1 ? T{1} : base == T{-1} ? (exponent % 2 ? T{-1} : T{1}) : T{0};
  }
  T result{1};
  for (; exponent != 0; exponent = static_cast<T>(exponent / 2)) {
    if (exponent % 2 != 0) result = wrap_mul(result, base);
    base = wrap_mul(base, base);
  }
  return result;
}
inline double float_fmod(double a, double b) { return __builtin_fmod(a, b); }
// Exact as fmod is, which divides bit by bit: the remainder of the quotient's integer part needs no rounding.
inline float float_fmod(float a, float b) {
  const double x = a, y = b, q = __builtin_trunc(x / y);
  if (!(__builtin_fabs(q) < 0x1p52 && __builtin_fabsf(b) <= std::numeric_limits<float>::max()))
    return __builtin_fmodf(a, b);
  double r = __builtin_fma(-q, y, x);
  if (r != 0 && (r < 0) != (x < 0)) r += __builtin_copysign(y, x);  // the quotient was rounded up
  return __builtin_copysignf(static_cast<float>(r), a);
}
template <class T>
inline T float_mod(T a, T b) {
  const T r = float_fmod(a, b);
  return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r;
}

// Amounts count as unsigned. By all bits or more: 0, or -1 for a negative number shifted to the right.
template <class T>
inline T shift_left(T a, T b) {
  const auto n = static_cast<std::make_unsigned_t<T>>(b);
  return n < sizeof(T) * 8 ? static_cast<T>(static_cast<Wide<T>>(a) << n) : T{0};
}
template <class T>
inline T shift_right(T a, T b) {
  constexpr std::make_unsigned_t<T> kMost = sizeof(T) * 8 - 1;
  const auto n = static_cast<std::make_unsigned_t<T>>(b);
  const T shifted = static_cast<T>(a >> (n < kMost ? n : kMost));
  return std::is_signed_v<T> || n <= kMost ? shifted : T{0};
}

// NaN wins.
template <class T>
inline T vmin(T a, T b) {
  if (__builtin_constant_p(b) && b == b) return b <= a ? b : a;  // one comparison: a NaN is `a`
  if constexpr (std::is_floating_point_v<T>)
    return ((a < b) | (a != a)) ? a : b;
  else
    return a < b ? a : b;
}
template <class T>
inline T vmax(T a, T b) {
  if (__builtin_constant_p(b) && b == b) return b >= a ? b : a;
  if constexpr (std::is_floating_point_v<T>)
    return ((a > b) | (a != a)) ? a : b;
  else
    return a > b ? a : b;
}
template <class T>
inline T vsign(T x) {
  if constexpr (std::is_floating_point_v<T>)
    return x > 0 ? T{1} : x < 0 ? T{-1} : x;  // keeps NaN
  else
    return static_cast<T>((x > 0) - (x < 0));
}
template <class T>
inline T int_abs(T x) {
  if constexpr (std::is_signed_v<T>)
    return x < 0 ? wrap_neg(x) : x;
  else
    return x;
}

// -------------------------------------------------------------------------------------------------------
// reductions

// Maps floats to integers of the same order, with NaN above (max) or below (min) everything: a reduction over
// these vectorises as an integer maximum, while one over floats that propagates NaN does not.
inline int32_t order_key(float x) {
  const int32_t s = std::bit_cast<int32_t>(x);
  return s ^ ((s >> 31) & 0x7fffffff);
}
inline int64_t order_key(double x) {
  const int64_t s = std::bit_cast<int64_t>(x);
  return s ^ ((s >> 63) & 0x7fffffffffffffff);
}
inline int32_t max_key(float x) { return x != x ? 0x7fffffff : order_key(x); }
inline int32_t min_key(float x) { return x != x ? -0x7fffffff - 1 : order_key(x); }
inline int64_t max_key(double x) { return x != x ? 0x7fffffffffffffff : order_key(x); }
inline int64_t min_key(double x) { return x != x ? -0x7fffffffffffffff - 1 : order_key(x); }
// The extreme keys are those of NaNs with all bits set, so they decode by themselves.
inline float from_key(int32_t k) { return std::bit_cast<float>(k ^ ((k >> 31) & 0x7fffffff)); }
inline double from_key(int64_t k) { return std::bit_cast<double>(k ^ ((k >> 63) & 0x7fffffffffffffff)); }

// -----------------------------------------------------------------------------------------------------------
// casts

// Returns a or b without a branch. Compilers would follow both ways of a branch through the code after it,
// and not vectorise that code.
template <class T>
inline T either(bool condition, T a, T b) {
  using Bits = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
  const Bits mask = -static_cast<Bits>(condition);
  return std::bit_cast<T>((std::bit_cast<Bits>(a) & mask) | (std::bit_cast<Bits>(b) & ~mask));
}

// Converts a floating point number to a number of the narrow integer type To: truncates and saturates, NaN
// becomes 0. Both bounds are numbers of From, and all values between them fit int32, so this is a minimum and
// a maximum.
template <class To, class From>
inline int32_t saturated(From x) {
  constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min()),
                 kHigh = static_cast<From>(std::numeric_limits<To>::max());
  From bounded = either(x > kLow, x, kLow);
  if constexpr (std::is_signed_v<To>) bounded = either(x == x, bounded, From{0});
  return static_cast<int32_t>(either(bounded < kHigh, bounded, kHigh));
}

// To integers: truncates and saturates, NaN becomes 0. To bool: value != 0.
template <class To, class From>
inline To convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From{0};
  } else if constexpr (std::is_same_v<From, bool>) {
    return x ? To{1} : To{0};  // a choice by the mask of a comparison, which never becomes a number
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> && sizeof(To) < 4) {
    return static_cast<To>(saturated<To>(x));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // The bounds are exact in From: powers of two, the upper one lies just outside.
    constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min());
    constexpr From kHigh = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * From{2};
    const bool inside = (x > kLow - From{1}) & (x < kHigh);
    const To outside = x >= kHigh  ? std::numeric_limits<To>::max()
                       : x <= kLow ? std::numeric_limits<To>::min()
                                   : To{0};
    const From safe = inside ? x : From{0};
    return inside ? static_cast<To>(safe) : outside;
  } else {
    return static_cast<To>(x);
  }
}

// The same for a byte, in 32 bits.
template <class To, class From>
inline int32_t wide_cast(From x) {
  static_assert(sizeof(To) == 1);
  if constexpr (std::is_floating_point_v<From>) {
    return saturated<To>(x);
  } else {
    const auto bits = static_cast<uint32_t>(x);
    return std::is_signed_v<To> ? static_cast<int32_t>(bits << 24) >> 24 : static_cast<int32_t>(bits & 255);
  }
}

// The value of an element of type To with the same bits as one of type From: types in memory.
template <class To, class From, class V>
inline auto same_bits(V v) {
  static_assert(sizeof(To) == sizeof(From));
  From from;
  store(from, v);
  if constexpr (std::is_same_v<To, bool>)
    return std::bit_cast<uint8_t>(from) != 0;
  else
    return load(std::bit_cast<To>(from));
}

}  // namespace braid::rt
