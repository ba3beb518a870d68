// Functions of two numbers: arithmetic, logic, powers.
#include <limits>

#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

// Before version 7, attributes request broadcasting, which is one-directional: the second operand's
// dimensions start at `axis` of the first's, or end with them.
TensorBox second_operand(OpContext& c) {
  TensorBox b = c.input(1);
  if (c.version() >= 7 || c.int_attribute("broadcast", 0) == 0 || !c.has_attribute("axis")) return b;
  const int rank = c.rank(0), axis = c.normalize_axis(c.int_attribute("axis"), rank);
  for (int k = axis + c.rank(1); k < rank; ++k) b = c.lowering().unsqueeze(b, static_cast<int>(b.rank()));
  return b;
}

template <OpCode code>
void lower_binary(OpContext& c) {
  c.set_output(0, binary(c.lowering(), code, c.input(0), second_operand(c)));
}

void lower_mod(OpContext& c) {
  if (c.int_attribute("fmod", 0) != 0) {
    c.set_output(0, binary(c.lowering(), OpCode::fmod, c.input(0), c.input(1)));
    return;
  }
  const DType dtype = c.dtype(0);
  if (!is_float(dtype)) {
    c.set_output(0, binary(c.lowering(), OpCode::mod, c.input(0), c.input(1)));
    return;
  }
  if (c.version() < 28) {
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute 'fmod' must be 1 for floating-point types in operator set {}", c.version()),
           "operator set 28 defines it");
  }
  // A zero has the sign of the divisor.
  c.set_output(
      0, c.lowering().pointwise({c.input(0), c.input(1)}, [&](BodyBuilder& b, std::span<const ValueId> v) {
        const ValueId zero = b.constant_of(dtype, 0), remainder = b.binary(OpCode::mod, v[0], v[1]);
        const ValueId signed_zero =
            b.where(b.binary(OpCode::lt, v[1], zero), b.constant_of(dtype, -0.0), zero);
        return b.where(b.binary(OpCode::eq, remainder, zero), signed_zero, remainder);
      }));
}

// As pow(x, 0.5), which is not sqrt(x) for -infinity and -0.
TensorBox square_root(ir::Lowering& l, const TensorBox& x) {
  return l.pointwise({x}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    const DType dtype = b.dtype(v[0]);
    const ValueId infinity = b.constant_of(dtype, std::numeric_limits<double>::infinity());
    const ValueId root = b.binary(OpCode::add, b.unary(OpCode::sqrt, v[0]), b.constant_of(dtype, 0));
    return b.where(b.binary(OpCode::eq, v[0], b.unary(OpCode::neg, infinity)), infinity, root);
  });
}

// Returns an integer to the power of an integer: exact, and wrapped. A power below one is truncated. 0 to a
// negative power is the largest number, as is the cast of infinity.
ValueId integer_power(BodyBuilder& b, ValueId base, ValueId exponent, DType dtype) {
  const DType wide = is_signed_integer(b.dtype(exponent)) ? DType::i64 : DType::u64;
  const ValueId x = b.cast(base, wide), n = b.cast(exponent, wide);
  if (wide == DType::u64) return b.cast(b.binary(OpCode::pow, x, n), dtype);
  const ValueId zero = b.constant_of(wide, 0);
  const ValueId power = b.cast(b.binary(OpCode::pow, x, b.binary(OpCode::max, n, zero)), dtype);
  const ValueId fraction =
      b.cast(b.binary(OpCode::pow, b.cast(base, DType::f64), b.cast(exponent, DType::f64)), dtype);
  return b.where(b.binary(OpCode::lt, n, zero), fraction, power);
}

// Base and exponent may have different types; the result has the base's. Usual exponents become
// multiplications, which are faster and, for a negative base, exact.
void lower_pow(OpContext& c) {
  const DType dtype = c.dtype(0);
  const std::optional<double> exponent = c.constant_scalar(1);
  const bool scalar_exponent = exponent && c.rank(1) <= c.rank(0);
  if (scalar_exponent && (*exponent == 1 || *exponent == 2 || *exponent == 3)) {
    c.set_output(0, c.lowering().pointwise({c.input(0)}, [&](BodyBuilder& b, std::span<const ValueId> v) {
      ValueId result = v[0];
      for (int k = 1; k < static_cast<int>(*exponent); ++k) result = b.binary(OpCode::mul, result, v[0]);
      return result;
    }));
    return;
  }
  if (scalar_exponent && is_float(dtype) && (*exponent == 0.5 || *exponent == -1)) {
    c.set_output(0, *exponent == -1 ? unary(c.lowering(), OpCode::reciprocal, c.input(0))
                                    : square_root(c.lowering(), c.input(0)));
    return;
  }
  const DType of_exponent = c.dtype(1);
  if (!is_float(dtype) && !is_float(of_exponent)) {
    c.set_output(0, c.lowering().pointwise({c.input(0), second_operand(c)},
                                           [&](BodyBuilder& b, std::span<const ValueId> v) {
                                             return integer_power(b, v[0], v[1], dtype);
                                           }));
    return;
  }
  // f32 has no numbers for large integers, which are even or odd.
  const bool exact = is_float(of_exponent) || ir::size_of(of_exponent) < 4 ||
                     (exponent && static_cast<double>(static_cast<float>(*exponent)) == *exponent);
  const DType compute = is_float(dtype) && exact ? dtype : DType::f64;
  c.set_output(0, c.lowering().pointwise({c.input(0), second_operand(c)}, [&](BodyBuilder& b,
                                                                              std::span<const ValueId> v) {
    return b.cast(b.binary(OpCode::pow, b.cast(v[0], compute), b.cast(v[1], compute)), dtype);
  }));
}

}  // namespace

std::span<const OpSpec> elementwise_binary_ops() {
  static const OpSpec ops[] = {
      elementwise("Add", 1, kNumbers, lower_binary<OpCode::add>, 1, rule::kAdditive, size_rule::kAdd),
      elementwise("And", 1, kBool, lower_binary<OpCode::logical_and>, 1, rule::kElementwise, size_rule::kAnd),
      elementwise("Div", 1, kNumbers, lower_binary<OpCode::div>, 10, rule::kDivision, size_rule::kDiv),
      elementwise("Mod", 10, kNumbers, lower_mod, 10, rule::kPower, size_rule::kMod),
      elementwise("Mul", 1, kNumbers, lower_binary<OpCode::mul>, 1, rule::kMultiplication, size_rule::kMul),
      elementwise("Or", 1, kBool, lower_binary<OpCode::logical_or>, 1, rule::kElementwise, size_rule::kOr),
      elementwise("Pow", 1, kFloats | kSigned, lower_pow, 10, rule::kPower, kNoSizes),
      elementwise("Sub", 1, kNumbers, lower_binary<OpCode::sub>, 1, rule::kAdditive, size_rule::kSub),
      elementwise("Xor", 1, kBool, lower_binary<OpCode::logical_xor>, 1, rule::kElementwise, kNoSizes),
  };
  return ops;
}

}  // namespace braid::frontend
