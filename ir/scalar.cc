#include "ir/scalar.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <functional>
#include <limits>
#include <type_traits>

#include "ir/element.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

#pragma GCC diagnostic error "-Wswitch"  // an op without a case does not compile

namespace braid::ir {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool is_unsigned(DType t) { return is_integer(t) && !is_signed_integer(t); }
Scalar of(double d) { return {d, 0}; }
Scalar of_int(std::int64_t i) { return {0, i}; }
Scalar of_bool(bool b) { return {0, b}; }

[[noreturn]] void division_by_zero() {
  user_error(errors::kStepUndefined, {}, "an integer was divided by zero",
             "the program's result is undefined for these inputs");
}

double quotient(double a, double b) { return a / b; }
double remainder_of(double a, double b) { return std::fmod(a, b); }
double power(double a, double b) { return std::pow(a, b); }
double least(double a, double b) { return std::isnan(a) || std::isnan(b) ? kNan : std::fmin(a, b); }
double greatest(double a, double b) { return std::isnan(a) || std::isnan(b) ? kNan : std::fmax(a, b); }

template <std::integral T>
T quotient(T a, T b) {
  if (b == 0) division_by_zero();
  return b == static_cast<T>(-1) && std::is_signed_v<T> ? static_cast<T>(0 - static_cast<std::uint64_t>(a))
                                                        : a / b;
}

template <std::integral T>
T remainder_of(T a, T b) {
  if (b == 0) division_by_zero();
  return b == static_cast<T>(-1) && std::is_signed_v<T> ? 0 : a % b;
}

template <std::integral T>
T power(T base, T exponent) {
  if (std::is_signed_v<T> && static_cast<std::int64_t>(exponent) < 0) {  // 1 / base^n, truncated
    if (base == 0) division_by_zero();
    return base == 1 || (base == static_cast<T>(-1) && exponent % 2 == 0) ? 1
           : base == static_cast<T>(-1)                                   ? -1
                                                                          : 0;
  }
  std::uint64_t result = 1, square = static_cast<std::uint64_t>(base);
  for (auto left = static_cast<std::uint64_t>(exponent); left; left >>= 1, square *= square) {
    if (left & 1) result *= square;
  }
  return static_cast<T>(result);
}

template <std::integral T>
T least(T a, T b) {
  return std::min(a, b);
}
template <std::integral T>
T greatest(T a, T b) {
  return std::max(a, b);
}

// A remainder with the divisor's sign.
template <class T>
T floored(T remainder, T divisor) {
  return remainder != 0 && (remainder < T{}) != (divisor < T{}) ? remainder + divisor : remainder;
}

// Every op on operands of `type`; numbers are not yet rounded or wrapped to it.
Scalar evaluate(OpCode code, DType type, Scalar a, Scalar b, Scalar c) {
  const bool is_real = is_float(type), u = is_unsigned(type);
  // Wrapping arithmetic is done in unsigned numbers.
  const auto x = static_cast<std::uint64_t>(a.i), y = static_cast<std::uint64_t>(b.i);
  const auto width = static_cast<std::uint64_t>(size_of(type)) * 8;
  const auto real = [&](double d) {
    internal_check(is_real, "{} of {}", to_string(code), to_string(type));
    return of(d);
  };
  const auto number = [&](double d, std::uint64_t i) {
    return is_real ? of(d) : of_int(static_cast<std::int64_t>(i));
  };
  const auto each = [&](auto op) {
    return is_real ? of(op(a.d, b.d)) : of_int(u ? static_cast<std::int64_t>(op(x, y)) : op(a.i, b.i));
  };
  const auto holds = [&](auto relation) {
    return of_bool(is_real ? relation(a.d, b.d) : u ? relation(x, y) : relation(a.i, b.i));
  };
  switch (code) {
    case OpCode::neg:
      return number(-a.d, 0 - x);
    case OpCode::abs:
      return number(std::fabs(a.d), !u && a.i < 0 ? 0 - x : x);
    case OpCode::sign:
      return number(std::isnan(a.d) ? a.d : (a.d > 0) - (a.d < 0), u ? x != 0 : (a.i > 0) - (a.i < 0));
    case OpCode::exp:
      return real(std::exp(a.d));
    case OpCode::expm1:
      return real(std::expm1(a.d));
    case OpCode::log:
      return real(std::log(a.d));
    case OpCode::log1p:
      return real(std::log1p(a.d));
    case OpCode::sqrt:
      return real(std::sqrt(a.d));
    case OpCode::rsqrt:
      return real(1 / std::sqrt(a.d));
    case OpCode::reciprocal:
      return real(1 / a.d);
    case OpCode::erf:
      return real(std::erf(a.d));
    case OpCode::tanh:
      return real(std::tanh(a.d));
    case OpCode::sigmoid:
      return real(1 / (1 + std::exp(-a.d)));
    case OpCode::sin:
      return real(std::sin(a.d));
    case OpCode::cos:
      return real(std::cos(a.d));
    case OpCode::tan:
      return real(std::tan(a.d));
    case OpCode::asin:
      return real(std::asin(a.d));
    case OpCode::acos:
      return real(std::acos(a.d));
    case OpCode::atan:
      return real(std::atan(a.d));
    case OpCode::sinh:
      return real(std::sinh(a.d));
    case OpCode::cosh:
      return real(std::cosh(a.d));
    case OpCode::asinh:
      return real(std::asinh(a.d));
    case OpCode::acosh:
      return real(std::acosh(a.d));
    case OpCode::atanh:
      return real(std::atanh(a.d));
    case OpCode::floor:
      return real(std::floor(a.d));
    case OpCode::ceil:
      return real(std::ceil(a.d));
    case OpCode::round:
      return real(std::nearbyint(a.d));  // half to even, as ONNX Round
    case OpCode::is_nan:
      return of_bool(std::isnan(a.d));
    case OpCode::is_inf:
      return of_bool(std::isinf(a.d));
    case OpCode::logical_not:
      return of_bool(!a.i);
    case OpCode::bit_not:
      return of_int(~a.i);
    case OpCode::add:
      return number(a.d + b.d, x + y);
    case OpCode::sub:
      return number(a.d - b.d, x - y);
    case OpCode::mul:
      return number(a.d * b.d, x * y);
    case OpCode::div:
      return each([](auto p, auto q) { return quotient(p, q); });
    case OpCode::mod:
      return each([](auto p, auto q) { return floored(remainder_of(p, q), q); });
    case OpCode::fmod:
      return each([](auto p, auto q) { return remainder_of(p, q); });
    case OpCode::pow:
      return each([](auto p, auto q) { return power(p, q); });
    case OpCode::min:
      return each([](auto p, auto q) { return least(p, q); });
    case OpCode::max:
      return each([](auto p, auto q) { return greatest(p, q); });
    case OpCode::logical_and:
      return of_bool(a.i && b.i);
    case OpCode::logical_or:
      return of_bool(a.i || b.i);
    case OpCode::logical_xor:
      return of_bool(!a.i != !b.i);
    case OpCode::bit_and:
      return of_int(a.i & b.i);
    case OpCode::bit_or:
      return of_int(a.i | b.i);
    case OpCode::bit_xor:
      return of_int(a.i ^ b.i);
    // An amount counts as unsigned: a negative one is larger than any width.
    case OpCode::shift_left:
      return of_int(y < width ? static_cast<std::int64_t>(x << y) : 0);
    case OpCode::shift_right:
      if (u) return of_int(y < width ? static_cast<std::int64_t>(x >> y) : 0);
      return of_int(a.i >> std::min(y, width - 1));
    case OpCode::eq:
      return holds(std::equal_to<>());
    case OpCode::ne:
      return holds(std::not_equal_to<>());
    case OpCode::lt:
      return holds(std::less<>());
    case OpCode::le:
      return holds(std::less_equal<>());
    case OpCode::gt:
      return holds(std::greater<>());
    case OpCode::ge:
      return holds(std::greater_equal<>());
    case OpCode::where:
      return a.i ? b : c;
    case OpCode::load:
    case OpCode::constant:
    case OpCode::index:
    case OpCode::acc:
    case OpCode::check_index:
    case OpCode::cast:
    case OpCode::bitcast:
      break;
  }
  throw InternalError(fmt::format("apply() does not support {}", to_string(code)));
}

std::int64_t saturate(DType to, double v) {
  if (std::isnan(v)) return 0;
  if (to == DType::u64) {
    if (v <= 0) return 0;
    return v >= 18446744073709551616.0 ? -1 : static_cast<std::int64_t>(static_cast<std::uint64_t>(v));
  }
  const auto bits = static_cast<int>(size_of(to) * 8);
  const bool u = is_unsigned(to);
  const double low = u ? 0 : -std::ldexp(1.0, bits - 1), high = std::ldexp(1.0, u ? bits : bits - 1);
  if (v <= low) return u ? 0 : std::numeric_limits<std::int64_t>::min() >> (64 - bits);
  if (v >= high)
    return u ? static_cast<std::int64_t>((std::uint64_t{1} << bits) - 1)
             : std::numeric_limits<std::int64_t>::max() >> (64 - bits);
  return static_cast<std::int64_t>(v);
}

}  // namespace

Scalar to_scalar(const Literal& literal) {
  if (const auto* d = std::get_if<double>(&literal)) return of(*d);
  return of_int(std::get<std::int64_t>(literal));
}

Literal to_literal(DType dtype, Scalar value) {
  return is_float(dtype) ? Literal(value.d) : Literal(value.i);
}

std::int64_t wrap(DType dtype, std::int64_t v) {
  switch (byte_type(dtype)) {
    case DType::i8:
      return static_cast<std::int8_t>(v);
    case DType::i16:
      return static_cast<std::int16_t>(v);
    case DType::i32:
      return static_cast<std::int32_t>(v);
    case DType::u8:
      return static_cast<std::uint8_t>(v);
    case DType::u16:
      return static_cast<std::uint16_t>(v);
    case DType::u32:
      return static_cast<std::uint32_t>(v);
    case DType::boolean:
      return v != 0;
    default:
      return v;
  }
}

Scalar rounded(DType type, Scalar value) {
  return is_float(type) ? of(round_to(type, value.d)) : of_int(wrap(type, value.i));
}

Scalar in_tf32(Scalar value) {
  constexpr std::uint32_t kDropped = 0x1fff, kExponent = 0x7f800000;
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value.d));
  if ((bits & kExponent) == kExponent) return value;
  return of(std::bit_cast<float>((bits + (kDropped + 1) / 2) & ~kDropped));
}

Scalar cast(DType from, DType to, Scalar v) {
  if (is_float(to)) {
    if (is_float(from)) return of(round_to(to, v.d));
    return of(round_to(to, from == DType::u64 ? static_cast<double>(static_cast<std::uint64_t>(v.i))
                                              : static_cast<double>(v.i)));
  }
  if (is_float(from)) {
    if (to == DType::boolean) return of_bool(v.d != 0);
    return of_int(saturate(to, v.d));
  }
  return of_int(wrap(to, v.i));
}

Scalar bitcast(DType from, DType to, Scalar v) {
  std::array<std::byte, sizeof(std::uint64_t)> bytes{};
  write_element(from, bytes.data(), to_literal(from, v));
  return to_scalar(read_element(to, bytes.data()));
}

Scalar apply(OpCode code, DType type, Scalar a, Scalar b, Scalar c) {
  const Scalar result = evaluate(code, type, a, b, c);
  // The operands of `where` already have the type.
  return code == OpCode::where || row_of(code).result_type == ResultType::boolean ? result
                                                                                  : rounded(type, result);
}

Scalar neutral(ReduceKind kind, DType type) {
  switch (kind) {
    case ReduceKind::sum:
    case ReduceKind::avg:
      return is_float(type) ? of(0) : of_int(0);
    case ReduceKind::prod:
      return is_float(type) ? of(1) : of_int(1);
    case ReduceKind::max:
      return is_float(type) ? of(-kInf) : type == DType::boolean ? of_int(0) : of_int(saturate(type, -kInf));
    case ReduceKind::min:
      return is_float(type) ? of(kInf) : type == DType::boolean ? of_int(1) : of_int(saturate(type, kInf));
  }
  return {};
}

Scalar fold(ReduceKind kind, DType type, Scalar a, Scalar b) {
  const OpCode code = kind == ReduceKind::prod  ? OpCode::mul
                      : kind == ReduceKind::max ? OpCode::max
                      : kind == ReduceKind::min ? OpCode::min
                                                : OpCode::add;
  const Scalar result = evaluate(code, type, a, b, {});
  return is_float(type) ? result : rounded(type, result);
}

}  // namespace braid::ir
