// Activation functions made of exponentials. They use expm1 and log1p, which keep the digits of small arguments.
#include <cmath>

#include "frontend/ops/common.h"

namespace braid::frontend {
namespace {

// x for x > 0, else scale * (exp(x / divisor) - 1)
ValueId exponential_linear(BodyBuilder& b, ValueId x, double scale, double divisor) {
  const DType t = b.dtype(x);
  const ValueId inner = divisor == 1 ? x : b.binary(OpCode::div, x, b.constant_of(t, divisor));
  const ValueId bent = b.binary(OpCode::mul, b.constant_of(t, scale), b.unary(OpCode::expm1, inner));
  return b.where(b.binary(OpCode::gt, x, b.constant_of(t, 0)), x, bent);
}

void lower_elu(OpContext& c) {
  const double alpha = c.float_attribute("alpha", 1);
  set_elementwise(c, [&](BodyBuilder& b, ValueId x) { return exponential_linear(b, x, alpha, 1); });
}

void lower_celu(OpContext& c) {
  const double alpha = c.float_attribute("alpha", 1);
  if (alpha == 0) c.fail(kInvalidAttribute, "attribute 'alpha' is 0, by which the input is divided");
  set_elementwise(c, [&](BodyBuilder& b, ValueId x) { return exponential_linear(b, x, alpha, alpha); });
}

void lower_selu(OpContext& c) {
  const bool first = c.version() < 6;  // whose defaults have fewer digits
  const double alpha = c.float_attribute("alpha", first ? 1.6732f : 1.67326319217681884765625f);
  const double gamma = c.float_attribute("gamma", first ? 1.0507f : 1.05070102214813232421875f);
  set_elementwise(c, [&](BodyBuilder& b, ValueId x) {
    return b.binary(OpCode::mul, b.constant_of(b.dtype(x), gamma), exponential_linear(b, x, alpha, 1));
  });
}

// log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)), in which nothing overflows.
ValueId softplus(BodyBuilder& b, ValueId x) {
  const ValueId small = b.unary(OpCode::exp, b.unary(OpCode::neg, b.unary(OpCode::abs, x)));
  return b.binary(OpCode::add, b.binary(OpCode::max, x, b.constant_of(b.dtype(x), 0)),
                  b.unary(OpCode::log1p, small));
}

void lower_softplus(OpContext& c) { set_elementwise(c, softplus); }

void lower_mish(OpContext& c) {
  set_elementwise(c, [](BodyBuilder& b, ValueId x) {
    return b.binary(OpCode::mul, x, b.unary(OpCode::tanh, softplus(b, x)));
  });
}

// x / (1 + |x|)
void lower_softsign(OpContext& c) {
  set_elementwise(c, [](BodyBuilder& b, ValueId x) {
    const ValueId one = b.constant_of(b.dtype(x), 1);
    return b.binary(OpCode::div, x, b.binary(OpCode::add, one, b.unary(OpCode::abs, x)));
  });
}

const OpSpec kOps[] = {
    {"", "Celu", 12, kNewestOpset, kFloats, lower_celu},
    {"", "Elu", 1, kNewestOpset, kFloats, lower_elu},
    {"", "Mish", 18, kNewestOpset, kFloats, lower_mish},
    {"", "Selu", 1, kNewestOpset, kFloats, lower_selu},
    {"", "Softplus", 1, kNewestOpset, kFloats, lower_softplus},
    {"", "Softsign", 1, kNewestOpset, kFloats, lower_softsign},
};

}  // namespace

std::span<const OpSpec> smooth_activation_ops() { return kOps; }

}  // namespace braid::frontend
