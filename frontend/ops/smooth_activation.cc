// Activation functions made of exponentials. They use expm1 and log1p, which keep the digits of small
// arguments.
#include "frontend/ops/activation_formulas.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

void lower_elu(OpContext& c) {
  const double alpha = c.float_attribute("alpha", 1);
  set_elementwise(c, [&](BodyBuilder& b, ValueId x) { return exponential_linear(b, x, alpha, 1); });
}

void lower_celu(OpContext& c) {
  const double alpha = c.float_attribute("alpha", 1);
  if (alpha == 0) c.fail(errors::kInvalidAttribute, "attribute 'alpha' is 0, by which the input is divided");
  set_elementwise(c, [&](BodyBuilder& b, ValueId x) { return exponential_linear(b, x, alpha, alpha); });
}

void lower_selu(OpContext& c) {
  const bool first = c.version() < 6;  // whose defaults have fewer digits
  const double alpha = c.float_attribute("alpha", first ? 1.6732f : 1.67326319217681884765625f);
  const double gamma = c.float_attribute("gamma", first ? 1.0507f : 1.05070102214813232421875f);
  set_elementwise(c, [&](BodyBuilder& b, ValueId x) { return selu(b, x, alpha, gamma); });
}

void lower_softplus(OpContext& c) { set_elementwise(c, softplus); }

void lower_mish(OpContext& c) {
  set_elementwise(c, [](BodyBuilder& b, ValueId x) {
    return b.binary(OpCode::mul, x, b.unary(OpCode::tanh, softplus(b, x)));
  });
}

void lower_softsign(OpContext& c) { set_elementwise(c, softsign); }

}  // namespace

std::span<const OpSpec> smooth_activation_ops() {
  static const OpSpec ops[] = {
      elementwise("Celu", 12, kFloats, lower_celu, 14, rule::kElementwise, kNoSizes),
      elementwise("Elu", 1, kFloats, lower_elu, 14, rule::kElementwise, kNoSizes),
      elementwise("Mish", 18, kFloats, lower_mish, 40, rule::kElementwise, kNoSizes),
      elementwise("Selu", 1, kFloats, lower_selu, 14, rule::kElementwise, kNoSizes),
      elementwise("Softplus", 1, kFloats, lower_softplus, 25, rule::kElementwise, kNoSizes),
      elementwise("Softsign", 1, kFloats, lower_softsign, 14, rule::kElementwise, kNoSizes),
  };
  return ops;
}

}  // namespace braid::frontend
