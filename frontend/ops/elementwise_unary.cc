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
    {"", "Abs", 1, kNewestOpset, kNumbers, lower<OpCode::abs>},
    {"", "Acos", 7, kNewestOpset, kFloats, lower<OpCode::acos>},
    {"", "Acosh", 9, kNewestOpset, kFloats, lower<OpCode::acosh>},
    {"", "Asin", 7, kNewestOpset, kFloats, lower<OpCode::asin>},
    {"", "Asinh", 9, kNewestOpset, kFloats, lower<OpCode::asinh>},
    {"", "Atan", 7, kNewestOpset, kFloats, lower<OpCode::atan>},
    {"", "Atanh", 9, kNewestOpset, kFloats, lower<OpCode::atanh>},
    {"", "Ceil", 1, kNewestOpset, kFloats, lower<OpCode::ceil>},
    {"", "Cos", 7, kNewestOpset, kFloats, lower<OpCode::cos>},
    {"", "Cosh", 9, kNewestOpset, kFloats, lower<OpCode::cosh>},
    {"", "Erf", 9, kNewestOpset, kFloats, lower<OpCode::erf>},
    {"", "Exp", 1, kNewestOpset, kFloats, lower<OpCode::exp>},
    {"", "Floor", 1, kNewestOpset, kFloats, lower<OpCode::floor>},
    {"", "IsInf", 10, kNewestOpset, kFloats, lower_is_inf},
    {"", "IsNaN", 9, kNewestOpset, kFloats, lower<OpCode::is_nan>},
    {"", "Log", 1, kNewestOpset, kFloats, lower<OpCode::log>},
    {"", "Neg", 1, kNewestOpset, kFloats | kSigned, lower<OpCode::neg>},
    {"", "Not", 1, kNewestOpset, kBool, lower<OpCode::logical_not>},
    {"", "Reciprocal", 1, kNewestOpset, kFloats, lower<OpCode::reciprocal>},
    {"", "Round", 11, kNewestOpset, kFloats, lower<OpCode::round>},
    {"", "Sigmoid", 1, kNewestOpset, kFloats, lower<OpCode::sigmoid>},
    {"", "Sign", 9, kNewestOpset, kNumbers, lower<OpCode::sign>},
    {"", "Sin", 7, kNewestOpset, kFloats, lower<OpCode::sin>},
    {"", "Sinh", 9, kNewestOpset, kFloats, lower<OpCode::sinh>},
    {"", "Sqrt", 1, kNewestOpset, kFloats, lower<OpCode::sqrt>},
    {"", "Tan", 7, kNewestOpset, kFloats, lower<OpCode::tan>},
    {"", "Tanh", 1, kNewestOpset, kFloats, lower<OpCode::tanh>},
};

}  // namespace

std::span<const OpSpec> elementwise_unary_ops() { return kOps; }

}  // namespace braid::frontend
