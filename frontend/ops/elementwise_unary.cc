// Functions of one number: Sqrt, Exp, Tanh, ...
#include "frontend/ops/common.h"

namespace braid::frontend {
namespace {

template <OpCode code>
void lower_unary(OpContext& c) {
  c.set_output(0, unary(c.lowering(), code, c.input(0)));
}

void lower_is_inf(OpContext& c) {
  const bool positive = c.int_attribute("detect_positive", 1) != 0;
  const bool negative = c.int_attribute("detect_negative", 1) != 0;
  c.set_output(0, c.lowering().pointwise({c.input(0)}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    if (!positive && !negative) return b.constant(DType::boolean, std::int64_t{0});
    const ValueId infinite = b.unary(OpCode::is_inf, v[0]);
    if (positive && negative) return infinite;
    const ValueId zero = b.constant_of(b.dtype(v[0]), 0);
    return b.binary(OpCode::logical_and, infinite, b.binary(positive ? OpCode::gt : OpCode::lt, v[0], zero));
  }));
}

}  // namespace

std::span<const OpSpec> elementwise_unary_ops() {
  static const OpSpec ops[] = {
      elementwise("Abs", 1, kNumbers, lower_unary<OpCode::abs>, 1, rule::kElementwise, size_rule::kAbs),
      elementwise("Acos", 7, kFloats, lower_unary<OpCode::acos>, 10, rule::kElementwise, kNoSizes),
      elementwise("Acosh", 9, kFloats, lower_unary<OpCode::acosh>, 10, rule::kElementwise, kNoSizes),
      elementwise("Asin", 7, kFloats, lower_unary<OpCode::asin>, 10, rule::kElementwise, kNoSizes),
      elementwise("Asinh", 9, kFloats, lower_unary<OpCode::asinh>, 10, rule::kElementwise, kNoSizes),
      elementwise("Atan", 7, kFloats, lower_unary<OpCode::atan>, 10, rule::kElementwise, kNoSizes),
      elementwise("Atanh", 9, kFloats, lower_unary<OpCode::atanh>, 10, rule::kElementwise, kNoSizes),
      elementwise("Ceil", 1, kFloats, lower_unary<OpCode::ceil>, 1, rule::kIncreasing, size_rule::kCeil),
      elementwise("Cos", 7, kFloats, lower_unary<OpCode::cos>, 10, rule::kElementwise, kNoSizes),
      elementwise("Cosh", 9, kFloats, lower_unary<OpCode::cosh>, 10, rule::kElementwise, kNoSizes),
      elementwise("Erf", 9, kFloats, lower_unary<OpCode::erf>, 10, rule::kElementwise, kNoSizes),
      elementwise("Exp", 1, kFloats, lower_unary<OpCode::exp>, 10, rule::kElementwise, kNoSizes),
      elementwise("Floor", 1, kFloats, lower_unary<OpCode::floor>, 1, rule::kIncreasing, size_rule::kFloor),
      elementwise("IsInf", 10, kFloats, lower_is_inf, 1, rule::kElementwise, kNoSizes),
      elementwise("IsNaN", 9, kFloats, lower_unary<OpCode::is_nan>, 1, rule::kElementwise, kNoSizes),
      elementwise("Log", 1, kFloats, lower_unary<OpCode::log>, 10, rule::kElementwise, kNoSizes),
      elementwise("Neg", 1, kFloats | kSigned, lower_unary<OpCode::neg>, 1, rule::kAdditive, size_rule::kNeg),
      elementwise("Not", 1, kBool, lower_unary<OpCode::logical_not>, 1, rule::kElementwise, size_rule::kNot),
      elementwise("Reciprocal", 1, kFloats, lower_unary<OpCode::reciprocal>, 10, rule::kElementwise,
                  kNoSizes),
      elementwise("Round", 11, kFloats, lower_unary<OpCode::round>, 1, rule::kIncreasing, kNoSizes),
      elementwise("Sigmoid", 1, kFloats, lower_unary<OpCode::sigmoid>, 10, rule::kElementwise, kNoSizes),
      elementwise("Sign", 9, kNumbers, lower_unary<OpCode::sign>, 1, rule::kElementwise, kNoSizes),
      elementwise("Sin", 7, kFloats, lower_unary<OpCode::sin>, 10, rule::kElementwise, kNoSizes),
      elementwise("Sinh", 9, kFloats, lower_unary<OpCode::sinh>, 10, rule::kElementwise, kNoSizes),
      elementwise("Sqrt", 1, kFloats, lower_unary<OpCode::sqrt>, 10, rule::kElementwise, kNoSizes),
      elementwise("Tan", 7, kFloats, lower_unary<OpCode::tan>, 10, rule::kElementwise, kNoSizes),
      elementwise("Tanh", 1, kFloats, lower_unary<OpCode::tanh>, 10, rule::kElementwise, kNoSizes),
  };
  return ops;
}

}  // namespace braid::frontend
