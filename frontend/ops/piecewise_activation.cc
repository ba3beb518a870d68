// Activation functions made of straight pieces.
#include <cmath>

#include "frontend/ops/activation_formulas.h"
#include "frontend/ops/broadcast.h"

namespace braid::frontend {
namespace {

void lower_hard_sigmoid(OpContext& c) {
  const double alpha = c.float_attribute("alpha", 0.2f), beta = c.float_attribute("beta", 0.5f);
  set_elementwise(c, [&](BodyBuilder& b, ValueId x) { return hard_sigmoid(b, x, alpha, beta); });
}

void lower_hard_swish(OpContext& c) { set_elementwise(c, hard_swish); }

// Up to version 6 the slope is one number or a vector with one per channel, then any tensor that is
// broadcast.
TensorBox slope_of(OpContext& c) {
  if (c.version() >= 7) {
    require_broadcast_to_first(c, 1);
    return c.input(1);
  }
  if (ir::numel(c.sizes(1)).is_constant(1)) return c.lowering().reshape(c.input(1), {});
  return per_channel(c, 1);
}

void lower_prelu(OpContext& c) {
  c.set_output(
      0, c.lowering().pointwise({c.input(0), slope_of(c)}, [](BodyBuilder& b, std::span<const ValueId> v) {
        const ValueId negative = b.binary(OpCode::lt, v[0], b.constant_of(b.dtype(v[0]), 0));
        return b.where(negative, b.binary(OpCode::mul, v[1], v[0]), v[0]);
      }));
}

void lower_thresholded_relu(OpContext& c) {
  const double alpha = c.float_attribute("alpha", 1);
  set_elementwise(c, [&](BodyBuilder& b, ValueId x) { return thresholded_relu(b, x, alpha); });
}

// Attributes are floats for integers too, which are therefore compared and moved in f64; a whole bias moves
// them without rounding.
void lower_shrink(OpContext& c) {
  const double bias = c.float_attribute("bias", 0), lambd = c.float_attribute("lambd", 0.5f);
  const DType dtype = c.dtype(0);
  const DType compared = is_float(dtype) ? compute_type(dtype) : DType::f64;
  const bool whole = !is_float(dtype) && std::trunc(bias) == bias && std::fabs(bias) < 0x1p31;
  c.set_output(0, c.lowering().pointwise({c.input(0)}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    const ValueId x = b.cast(v[0], compared);
    const auto moved = [&](OpCode code) {
      if (whole) {
        const ValueId amount = b.cast(b.constant(DType::i64, static_cast<std::int64_t>(bias)), dtype);
        return b.binary(code, v[0], amount);
      }
      return b.cast(b.binary(code, x, b.constant_of(compared, bias)), dtype);
    };
    const ValueId inner = b.where(b.binary(OpCode::gt, x, b.constant_of(compared, lambd)), moved(OpCode::sub),
                                  b.constant_of(dtype, 0));
    return b.where(b.binary(OpCode::lt, x, b.constant_of(compared, -lambd)), moved(OpCode::add), inner);
  }));
}

}  // namespace

std::span<const OpSpec> piecewise_activation_ops() {
  static const OpSpec ops[] = {
      elementwise("HardSigmoid", 1, kFloats, lower_hard_sigmoid, 4, rule::kElementwise, kNoSizes),
      elementwise("HardSwish", 14, kFloats, lower_hard_swish, 5, rule::kElementwise, kNoSizes),
      elementwise("PRelu", 1, kNumbers, lower_prelu, 3, rule::kParametric, kNoSizes),
      elementwise("Shrink", 9, kNumbers, lower_shrink, 6, rule::kElementwise, kNoSizes),
      elementwise("ThresholdedRelu", 10, kFloats, lower_thresholded_relu, 2, rule::kElementwise, kNoSizes),
  };
  return ops;
}

}  // namespace braid::frontend
