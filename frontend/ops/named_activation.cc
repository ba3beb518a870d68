#include "frontend/ops/named_activation.h"

#include "frontend/ops/activation_formulas.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

using Parameters = std::vector<double>;
using Activation = ValueId (*)(BodyBuilder&, ValueId, const Parameters&);

struct Row {
  const char* name;
  std::size_t parameters;
  Activation apply;
};

ValueId scaled(BodyBuilder& b, double factor, ValueId x) {
  return b.binary(OpCode::mul, b.constant_of(b.dtype(x), factor), x);
}

const Row kRows[] = {
    {"Celu", 1,
     [](BodyBuilder& b, ValueId x, const Parameters& p) { return exponential_linear(b, x, p[0], p[0]); }},
    {"Clip", 2,
     [](BodyBuilder& b, ValueId x, const Parameters& p) {
       const ValueId low = b.binary(OpCode::max, x, b.constant_of(b.dtype(x), p[0]));
       return b.binary(OpCode::min, low, b.constant_of(b.dtype(x), p[1]));
     }},
    {"Elu", 1,
     [](BodyBuilder& b, ValueId x, const Parameters& p) { return exponential_linear(b, x, p[0], 1); }},
    {"HardSigmoid", 2,
     [](BodyBuilder& b, ValueId x, const Parameters& p) { return hard_sigmoid(b, x, p[0], p[1]); }},
    {"HardSwish", 0, [](BodyBuilder& b, ValueId x, const Parameters&) { return hard_swish(b, x); }},
    {"LeakyRelu", 1, [](BodyBuilder& b, ValueId x, const Parameters& p) { return leaky_relu(b, x, p[0]); }},
    {"ParametricSoftplus", 2,
     [](BodyBuilder& b, ValueId x, const Parameters& p) {
       return scaled(b, p[0], softplus(b, scaled(b, p[1], x)));
     }},
    {"Relu", 0, [](BodyBuilder& b, ValueId x, const Parameters&) { return relu(b, x); }},
    {"ScaledTanh", 2,
     [](BodyBuilder& b, ValueId x, const Parameters& p) {
       return scaled(b, p[0], b.unary(OpCode::tanh, scaled(b, p[1], x)));
     }},
    {"Selu", 0, nullptr},  // its parameters are alpha and gamma
    {"Sigmoid", 0, [](BodyBuilder& b, ValueId x, const Parameters&) { return b.unary(OpCode::sigmoid, x); }},
    {"Softplus", 0, [](BodyBuilder& b, ValueId x, const Parameters&) { return softplus(b, x); }},
    {"Softsign", 0, [](BodyBuilder& b, ValueId x, const Parameters&) { return softsign(b, x); }},
    {"Tanh", 0, [](BodyBuilder& b, ValueId x, const Parameters&) { return b.unary(OpCode::tanh, x); }},
    {"ThresholdedRelu", 1,
     [](BodyBuilder& b, ValueId x, const Parameters& p) { return thresholded_relu(b, x, p[0]); }},
};

}  // namespace

std::function<ValueId(BodyBuilder&, ValueId)> named_activation(
    OpContext& c, const std::string& name, const std::vector<std::optional<double>>& parameters) {
  if (name.empty()) return [](BodyBuilder&, ValueId x) { return x; };
  const auto parameter = [&](std::size_t k) {
    if (k >= parameters.size() || !parameters[k])
      c.fail(errors::kInvalidAttribute, fmt::format("the activation {} has no parameter {}", name, k));
    return *parameters[k];
  };
  for (const Row& row : kRows) {
    if (name != row.name) continue;
    if (name == "Selu") {
      const double alpha = parameter(0), gamma = parameter(2);
      return [=](BodyBuilder& b, ValueId x) { return selu(b, x, alpha, gamma); };
    }
    Parameters given;
    for (std::size_t k = 0; k < row.parameters; ++k) given.push_back(parameter(k));
    if (name == "Celu" && given[0] == 0)
      c.fail(errors::kInvalidAttribute, "Celu divides by its parameter, which is 0");
    return [given, apply = row.apply](BodyBuilder& b, ValueId x) { return apply(b, x, given); };
  }
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  c.fail(errors::kInvalidAttribute,
         fmt::format("attribute 'activation' is '{}', expected one of {}", name, fmt::join(names, ", ")));
}

TensorBox activated(OpContext& c, const TensorBox& x, const std::string& name,
                    const std::vector<std::optional<double>>& parameters) {
  const auto function = named_activation(c, name, parameters);
  if (name.empty()) return x;
  const DType dtype = x.dtype(), compute = compute_type(dtype);
  return c.lowering().pointwise({x}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    return b.cast(function(b, b.cast(v[0], compute)), dtype);
  });
}

}  // namespace braid::frontend
