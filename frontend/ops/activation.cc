// Activation functions that are more than one instruction.
#include "frontend/ops/activation_formulas.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

void lower_relu(OpContext& c) {
  c.set_output(0, c.lowering().pointwise({c.input(0)}, [](BodyBuilder& b, std::span<const ValueId> v) {
    return relu(b, v[0]);
  }));
}

void lower_leaky_relu(OpContext& c) {
  const double alpha = c.float_attribute("alpha", 0.01f);
  c.set_output(0, c.lowering().pointwise({c.input(0)}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    return leaky_relu(b, v[0], alpha);
  }));
}

void lower_gelu(OpContext& c) {
  const std::string approximate = c.string_attribute("approximate", "none");
  if (approximate != "none" && approximate != "tanh") {
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute 'approximate' is '{}', expected 'none' or 'tanh'", approximate));
  }
  set_elementwise(c, approximate == "tanh" ? gelu_by_tanh : gelu);
}

// Bounds are attributes before version 11, optional inputs of one element since.
void lower_clip(OpContext& c) {
  TensorBox x = c.input(0);
  const DType dtype = c.dtype(0);
  const auto bound = [&](int k, const char* attribute, OpCode code) {
    if (c.version() >= 11) {
      if (!c.has_input(k)) return;
      if (c.rank(k) != 0)
        c.fail(errors::kShapeMismatch, fmt::format("input {} ('{}') is not a scalar", k, attribute));
      x = binary(c.lowering(), code, x, c.input(k));
    } else if (c.has_attribute(attribute)) {
      x = binary(c.lowering(), code, x, c.lowering().scalar(dtype, c.float_attribute(attribute, 0)));
    }
  };
  bound(1, "min", OpCode::max);
  bound(2, "max", OpCode::min);
  c.set_output(0, x);
}

void lower_swish(OpContext& c) {
  const double alpha = c.float_attribute("alpha", 1);
  c.set_output(0, c.lowering().pointwise({c.input(0)}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    return swish(b, v[0], alpha);
  }));
}

}  // namespace

std::span<const OpSpec> activation_ops() {
  static const OpSpec ops[] = {
      elementwise("Clip", 6, kNumbers, lower_clip, 2, rule::kFirstOnly, kNoSizes),
      elementwise("Gelu", 20, kFloats, lower_gelu, 14, rule::kElementwise, kNoSizes),
      elementwise("LeakyRelu", 6, kFloats, lower_leaky_relu, 3, rule::kElementwise, kNoSizes),
      elementwise("Relu", 1, kFloats | kSigned, lower_relu, 1, rule::kIncreasing, kNoSizes),
      elementwise("Swish", 24, kFloats, lower_swish, 11, rule::kElementwise, kNoSizes),
  };
  return ops;
}

}  // namespace braid::frontend
