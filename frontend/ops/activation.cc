// Activation functions that are more than one instruction.
#include <cmath>
#include <numbers>

#include "frontend/ops/common.h"

namespace braid::frontend {
namespace {

void lower_relu(OpContext& c) {
  c.set_output(0, c.lowering().pointwise({c.input(0)}, [](BodyBuilder& b, std::span<const ValueId> v) {
    return b.binary(OpCode::max, v[0], b.constant_of(b.dtype(v[0]), 0));
  }));
}

void lower_leaky_relu(OpContext& c) {
  const double alpha = c.float_attribute("alpha", 0.01f);
  c.set_output(0, c.lowering().pointwise({c.input(0)}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    const ValueId negative = b.binary(OpCode::lt, v[0], b.constant_of(b.dtype(v[0]), 0));
    return b.where(negative, b.binary(OpCode::mul, v[0], b.constant_of(b.dtype(v[0]), alpha)), v[0]);
  }));
}

// none: x/2 (1 + erf(x/sqrt(2))); tanh: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
void lower_gelu(OpContext& c) {
  const std::string approximate = c.string_attribute("approximate", "none");
  if (approximate != "none" && approximate != "tanh") {
    c.fail(kInvalidAttribute,
           fmt::format("attribute 'approximate' is '{}', expected 'none' or 'tanh'", approximate));
  }
  const DType dtype = c.dtype(0);
  c.set_output(0, c.lowering().pointwise({c.input(0)}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    const DType compute = compute_type(dtype);
    const ValueId x = b.cast(v[0], compute);
    const auto constant = [&](double value) { return b.constant_of(compute, value); };
    ValueId bent;
    if (approximate == "tanh") {
      const ValueId cube = b.binary(OpCode::mul, b.binary(OpCode::mul, x, x), x);
      const ValueId inner = b.binary(OpCode::add, x, b.binary(OpCode::mul, constant(0.044715), cube));
      bent = b.unary(OpCode::tanh, b.binary(OpCode::mul, constant(std::sqrt(2 / std::numbers::pi)), inner));
    } else {
      bent = b.unary(OpCode::erf, b.binary(OpCode::mul, x, constant(1 / std::numbers::sqrt2)));
    }
    const ValueId half = b.binary(OpCode::mul, constant(0.5), x);
    return b.cast(b.binary(OpCode::mul, half, b.binary(OpCode::add, constant(1), bent)), dtype);
  }));
}

// Bounds are attributes before version 11, optional inputs of one element since.
void lower_clip(OpContext& c) {
  TensorBox x = c.input(0);
  const DType dtype = c.dtype(0);
  const auto bound = [&](int k, const char* attribute, OpCode code) {
    if (c.version() >= 11) {
      if (!c.has_input(k)) return;
      if (c.rank(k) != 0)  // ONNX's inference takes the result's shape from the first input alone
        c.fail(kShapeMismatch, fmt::format("input {} ('{}') is not a scalar", k, attribute));
      x = binary(c.lowering(), code, x, c.input(k));
    } else if (c.has_attribute(attribute)) {
      x = binary(c.lowering(), code, x, c.lowering().scalar(dtype, c.float_attribute(attribute, 0)));
    }
  };
  bound(1, "min", OpCode::max);
  bound(2, "max", OpCode::min);
  c.set_output(0, x);
}

// x * sigmoid(alpha x)
void lower_swish(OpContext& c) {
  const double alpha = c.float_attribute("alpha", 1);
  c.set_output(0, c.lowering().pointwise({c.input(0)}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    const ValueId scaled =
        alpha == 1 ? v[0] : b.binary(OpCode::mul, v[0], b.constant_of(b.dtype(v[0]), alpha));
    return b.binary(OpCode::mul, v[0], b.unary(OpCode::sigmoid, scaled));
  }));
}

const OpSpec kOps[] = {
    {"", "Clip", 6, kNewestOpset, kNumbers, lower_clip},
    {"", "Gelu", 20, kNewestOpset, kFloats, lower_gelu},
    {"", "LeakyRelu", 6, kNewestOpset, kFloats, lower_leaky_relu},
    {"", "Relu", 1, kNewestOpset, kFloats | kSigned, lower_relu},
    {"", "Swish", 24, kNewestOpset, kFloats, lower_swish},
};

}  // namespace

std::span<const OpSpec> activation_ops() { return kOps; }

}  // namespace braid::frontend
