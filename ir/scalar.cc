#include "ir/scalar.h"

#include <cmath>
#include <limits>

#include "ir/element.h"
#include "ir/error.h"

namespace braid::ir {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

bool is_unsigned(DType t) { return is_integer(t) && !is_signed_integer(t); }
Scalar of(double d) { return {d, 0}; }
Scalar of_int(std::int64_t i) { return {0, i}; }
Scalar of_bool(bool b) { return {0, b}; }

[[noreturn]] void division_by_zero() {
  user_error(711, {}, "an integer is divided by zero",
             "the program's result is not defined for these inputs");
}

double unary(OpCode code, double a) {
  switch (code) {
    case OpCode::neg:
      return -a;
    case OpCode::abs:
      return std::fabs(a);
    case OpCode::sign:
      return std::isnan(a) ? a : static_cast<double>((a > 0) - (a < 0));
    case OpCode::exp:
      return std::exp(a);
    case OpCode::log:
      return std::log(a);
    case OpCode::sqrt:
      return std::sqrt(a);
    case OpCode::rsqrt:
      return 1 / std::sqrt(a);
    case OpCode::reciprocal:
      return 1 / a;
    case OpCode::erf:
      return std::erf(a);
    case OpCode::tanh:
      return std::tanh(a);
    case OpCode::sigmoid:
      return 1 / (1 + std::exp(-a));
    case OpCode::sin:
      return std::sin(a);
    case OpCode::cos:
      return std::cos(a);
    case OpCode::floor:
      return std::floor(a);
    case OpCode::ceil:
      return std::ceil(a);
    case OpCode::round:
      return std::nearbyint(a);  // half to even, as ONNX Round
    default:
      throw InternalError(fmt::format("{} of a float", to_string(code)));
  }
}

double binary(OpCode code, double a, double b) {
  switch (code) {
    case OpCode::add:
      return a + b;
    case OpCode::sub:
      return a - b;
    case OpCode::mul:
      return a * b;
    case OpCode::div:
      return a / b;
    case OpCode::mod: {
      const double r = std::fmod(a, b);
      return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    }
    case OpCode::fmod:
      return std::fmod(a, b);
    case OpCode::pow:
      return std::pow(a, b);
    case OpCode::min:
      return std::isnan(a) || std::isnan(b) ? std::numeric_limits<double>::quiet_NaN() : std::fmin(a, b);
    case OpCode::max:
      return std::isnan(a) || std::isnan(b) ? std::numeric_limits<double>::quiet_NaN() : std::fmax(a, b);
    default:
      throw InternalError(fmt::format("{} of floats", to_string(code)));
  }
}

template <class T>
bool compare(OpCode code, T a, T b) {
  switch (code) {
    case OpCode::eq:
      return a == b;
    case OpCode::ne:
      return a != b;
    case OpCode::lt:
      return a < b;
    case OpCode::le:
      return a <= b;
    case OpCode::gt:
      return a > b;
    default:
      return a >= b;
  }
}

std::uint64_t power(std::uint64_t base, std::uint64_t exponent) {
  std::uint64_t result = 1;
  for (; exponent; exponent >>= 1, base *= base) {
    if (exponent & 1) result *= base;
  }
  return result;
}

std::int64_t integer(OpCode code, DType type, std::int64_t a, std::int64_t b) {
  const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
  const bool u = is_unsigned(type);
  switch (code) {
    case OpCode::neg:
      return static_cast<std::int64_t>(0 - x);
    case OpCode::abs:
      return !u && a < 0 ? static_cast<std::int64_t>(0 - x) : a;
    case OpCode::sign:
      return u ? a != 0 : (a > 0) - (a < 0);
    case OpCode::add:
      return static_cast<std::int64_t>(x + y);
    case OpCode::sub:
      return static_cast<std::int64_t>(x - y);
    case OpCode::mul:
      return static_cast<std::int64_t>(x * y);
    case OpCode::div:
      if (b == 0) division_by_zero();
      if (u) return static_cast<std::int64_t>(x / y);
      return b == -1 ? static_cast<std::int64_t>(0 - x) : a / b;
    case OpCode::mod:
    case OpCode::fmod: {
      if (b == 0) division_by_zero();
      if (u) return static_cast<std::int64_t>(x % y);
      if (b == -1) return 0;
      const std::int64_t r = a % b;
      return code == OpCode::mod && r != 0 && (r < 0) != (b < 0) ? r + b : r;
    }
    case OpCode::pow:
      if (u || b >= 0) return static_cast<std::int64_t>(power(x, y));
      // 1 / a^n, truncated
      if (a == 0) division_by_zero();
      return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
    case OpCode::min:
      return u ? (x < y ? a : b) : std::min(a, b);
    case OpCode::max:
      return u ? (x > y ? a : b) : std::max(a, b);
    default:
      throw InternalError(fmt::format("{} of integers", to_string(code)));
  }
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
  switch (dtype) {
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

Scalar apply(OpCode code, DType type, Scalar a, Scalar b, Scalar c) {
  switch (code) {
    case OpCode::is_nan:
      return of_bool(std::isnan(a.d));
    case OpCode::is_inf:
      return of_bool(std::isinf(a.d));
    case OpCode::logical_not:
      return of_bool(!a.i);
    case OpCode::logical_and:
      return of_bool(a.i && b.i);
    case OpCode::logical_or:
      return of_bool(a.i || b.i);
    case OpCode::logical_xor:
      return of_bool(!a.i != !b.i);
    case OpCode::where:
      return a.i ? b : c;
    case OpCode::eq:
    case OpCode::ne:
    case OpCode::lt:
    case OpCode::le:
    case OpCode::gt:
    case OpCode::ge:
      if (is_float(type)) return of_bool(compare(code, a.d, b.d));
      if (type == DType::u64)
        return of_bool(compare(code, static_cast<std::uint64_t>(a.i), static_cast<std::uint64_t>(b.i)));
      return of_bool(compare(code, a.i, b.i));
    default:
      if (is_float(type)) {
        const double r = operand_count(code) == 1 ? unary(code, a.d) : binary(code, a.d, b.d);
        return of(round_to(type, r));
      }
      return of_int(wrap(type, integer(code, type, a.i, b.i)));
  }
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
  if (is_float(type)) return of(binary(code, a.d, b.d));
  return of_int(wrap(type, integer(code, type, a.i, b.i)));
}

}  // namespace braid::ir
