#include "frontend/ops/activation_formulas.h"

#include <cmath>
#include <numbers>

namespace braid::frontend {

namespace {

// x/2 (1 + bent)
ValueId half_of(BodyBuilder& b, ValueId x, ValueId bent) {
  const DType t = b.dtype(x);
  const ValueId half = b.binary(OpCode::mul, b.constant_of(t, 0.5), x);
  return b.binary(OpCode::mul, half, b.binary(OpCode::add, b.constant_of(t, 1), bent));
}

}  // namespace

ValueId gelu(BodyBuilder& b, ValueId x) {
  const ValueId inner = b.binary(OpCode::mul, x, b.constant_of(b.dtype(x), 1 / std::numbers::sqrt2));
  return half_of(b, x, b.unary(OpCode::erf, inner));
}

ValueId gelu_by_tanh(BodyBuilder& b, ValueId x) {
  const auto constant = [&](double value) { return b.constant_of(b.dtype(x), value); };
  const ValueId cube = b.binary(OpCode::mul, b.binary(OpCode::mul, x, x), x);
  const ValueId inner = b.binary(OpCode::add, x, b.binary(OpCode::mul, constant(0.044715), cube));
  const ValueId root = constant(std::sqrt(2 / std::numbers::pi));
  return half_of(b, x, b.unary(OpCode::tanh, b.binary(OpCode::mul, root, inner)));
}

ValueId swish(BodyBuilder& b, ValueId x, double alpha) {
  const ValueId scaled = alpha == 1 ? x : b.binary(OpCode::mul, x, b.constant_of(b.dtype(x), alpha));
  return b.binary(OpCode::mul, x, b.unary(OpCode::sigmoid, scaled));
}

ValueId exponential_linear(BodyBuilder& b, ValueId x, double scale, double divisor) {
  const DType t = b.dtype(x);
  const ValueId inner = divisor == 1 ? x : b.binary(OpCode::div, x, b.constant_of(t, divisor));
  const ValueId bent = b.binary(OpCode::mul, b.constant_of(t, scale), b.unary(OpCode::expm1, inner));
  return b.where(b.binary(OpCode::gt, x, b.constant_of(t, 0)), x, bent);
}

ValueId selu(BodyBuilder& b, ValueId x, double alpha, double gamma) {
  return b.binary(OpCode::mul, b.constant_of(b.dtype(x), gamma), exponential_linear(b, x, alpha, 1));
}

// max(x, 0) + log(1 + exp(-|x|))
ValueId softplus(BodyBuilder& b, ValueId x) {
  const ValueId small = b.unary(OpCode::exp, b.unary(OpCode::neg, b.unary(OpCode::abs, x)));
  return b.binary(OpCode::add, b.binary(OpCode::max, x, b.constant_of(b.dtype(x), 0)),
                  b.unary(OpCode::log1p, small));
}

ValueId softsign(BodyBuilder& b, ValueId x) {
  const ValueId one = b.constant_of(b.dtype(x), 1);
  return b.binary(OpCode::div, x, b.binary(OpCode::add, one, b.unary(OpCode::abs, x)));
}

ValueId hard_sigmoid(BodyBuilder& b, ValueId x, double alpha, double beta) {
  const DType t = b.dtype(x);
  const ValueId line =
      b.binary(OpCode::add, b.binary(OpCode::mul, x, b.constant_of(t, alpha)), b.constant_of(t, beta));
  return b.binary(OpCode::max, b.binary(OpCode::min, line, b.constant_of(t, 1)), b.constant_of(t, 0));
}

ValueId hard_swish(BodyBuilder& b, ValueId x) {
  return b.binary(OpCode::mul, x, hard_sigmoid(b, x, 1.0 / 6, 0.5));
}

ValueId relu(BodyBuilder& b, ValueId x) { return b.binary(OpCode::max, x, b.constant_of(b.dtype(x), 0)); }

ValueId leaky_relu(BodyBuilder& b, ValueId x, double alpha) {
  const DType t = b.dtype(x);
  const ValueId negative = b.binary(OpCode::lt, x, b.constant_of(t, 0));
  return b.where(negative, b.binary(OpCode::mul, x, b.constant_of(t, alpha)), x);
}

ValueId thresholded_relu(BodyBuilder& b, ValueId x, double alpha) {
  const DType t = b.dtype(x);
  return b.where(b.binary(OpCode::gt, x, b.constant_of(t, alpha)), x, b.constant_of(t, 0));
}

}  // namespace braid::frontend
