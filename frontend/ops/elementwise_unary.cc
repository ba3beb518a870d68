// Functions of one number: Sqrt, Exp, Tanh, ...
#include "frontend/ops/common.h"

namespace braid::frontend {
namespace {

template <OpCode code>
void lower(OpContext& c) {
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

const OpSpec kOps[] = {
    {"", "Abs", 1, kNewestOpset, kNumbers, lower<OpCode::abs>, work::pointwise(1)},
    {"", "Acos", 7, kNewestOpset, kFloats, lower<OpCode::acos>, work::pointwise(10)},
    {"", "Acosh", 9, kNewestOpset, kFloats, lower<OpCode::acosh>, work::pointwise(10)},
    {"", "Asin", 7, kNewestOpset, kFloats, lower<OpCode::asin>, work::pointwise(10)},
    {"", "Asinh", 9, kNewestOpset, kFloats, lower<OpCode::asinh>, work::pointwise(10)},
    {"", "Atan", 7, kNewestOpset, kFloats, lower<OpCode::atan>, work::pointwise(10)},
    {"", "Atanh", 9, kNewestOpset, kFloats, lower<OpCode::atanh>, work::pointwise(10)},
    {"", "Ceil", 1, kNewestOpset, kFloats, lower<OpCode::ceil>, work::pointwise(1)},
    {"", "Cos", 7, kNewestOpset, kFloats, lower<OpCode::cos>, work::pointwise(10)},
    {"", "Cosh", 9, kNewestOpset, kFloats, lower<OpCode::cosh>, work::pointwise(10)},
    {"", "Erf", 9, kNewestOpset, kFloats, lower<OpCode::erf>, work::pointwise(10)},
    {"", "Exp", 1, kNewestOpset, kFloats, lower<OpCode::exp>, work::pointwise(10)},
    {"", "Floor", 1, kNewestOpset, kFloats, lower<OpCode::floor>, work::pointwise(1)},
    {"", "IsInf", 10, kNewestOpset, kFloats, lower_is_inf, work::pointwise(1)},
    {"", "IsNaN", 9, kNewestOpset, kFloats, lower<OpCode::is_nan>, work::pointwise(1)},
    {"", "Log", 1, kNewestOpset, kFloats, lower<OpCode::log>, work::pointwise(10)},
    {"", "Neg", 1, kNewestOpset, kFloats | kSigned, lower<OpCode::neg>, work::pointwise(1)},
    {"", "Not", 1, kNewestOpset, kBool, lower<OpCode::logical_not>, work::pointwise(1)},
    {"", "Reciprocal", 1, kNewestOpset, kFloats, lower<OpCode::reciprocal>, work::pointwise(10)},
    {"", "Round", 11, kNewestOpset, kFloats, lower<OpCode::round>, work::pointwise(1)},
    {"", "Sigmoid", 1, kNewestOpset, kFloats, lower<OpCode::sigmoid>, work::pointwise(10)},
    {"", "Sign", 9, kNewestOpset, kNumbers, lower<OpCode::sign>, work::pointwise(1)},
    {"", "Sin", 7, kNewestOpset, kFloats, lower<OpCode::sin>, work::pointwise(10)},
    {"", "Sinh", 9, kNewestOpset, kFloats, lower<OpCode::sinh>, work::pointwise(10)},
    {"", "Sqrt", 1, kNewestOpset, kFloats, lower<OpCode::sqrt>, work::pointwise(10)},
    {"", "Tan", 7, kNewestOpset, kFloats, lower<OpCode::tan>, work::pointwise(10)},
    {"", "Tanh", 1, kNewestOpset, kFloats, lower<OpCode::tanh>, work::pointwise(10)},
};

}  // namespace

std::span<const OpSpec> elementwise_unary_ops() { return kOps; }

}  // namespace braid::frontend
