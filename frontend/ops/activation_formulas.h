// Activation functions of one value, for the operators named after them and for those that are fused with
// one.
#pragma once

#include "frontend/ops/common.h"

namespace braid::frontend {

// x/2 (1 + erf(x/sqrt(2)))
ValueId gelu(BodyBuilder& b, ValueId x);
// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
ValueId gelu_by_tanh(BodyBuilder& b, ValueId x);
// x * sigmoid(alpha x)
ValueId swish(BodyBuilder& b, ValueId x, double alpha);
// x for x > 0, else scale * (exp(x / divisor) - 1)
ValueId exponential_linear(BodyBuilder& b, ValueId x, double scale, double divisor);
// gamma times the same with the scale alpha
ValueId selu(BodyBuilder& b, ValueId x, double alpha, double gamma);
// log(1 + exp(x)), in which nothing overflows
ValueId softplus(BodyBuilder& b, ValueId x);
// x / (1 + |x|)
ValueId softsign(BodyBuilder& b, ValueId x);
// max(0, min(1, alpha * x + beta))
ValueId hard_sigmoid(BodyBuilder& b, ValueId x, double alpha, double beta);
// x * hard_sigmoid(x) with alpha = 1/6 and beta = 1/2
ValueId hard_swish(BodyBuilder& b, ValueId x);
ValueId relu(BodyBuilder& b, ValueId x);
// alpha * x for x < 0
ValueId leaky_relu(BodyBuilder& b, ValueId x, double alpha);
// x for x > alpha, else 0
ValueId thresholded_relu(BodyBuilder& b, ValueId x, double alpha);

}  // namespace braid::frontend
