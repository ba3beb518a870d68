// The activation that an attribute names, of operators that are fused with one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "frontend/ops/common.h"

namespace braid::frontend {

// Returns the activation by ONNX Runtime's name: Relu, LeakyRelu, Clip, ... `parameters` are alpha, beta and
// gamma, or the bounds of Clip. An empty name is the identity. Throws kInvalidAttribute for an unknown name,
// or a parameter that is missing and has no default.
std::function<ValueId(BodyBuilder&, ValueId)> named_activation(
    OpContext& c, const std::string& name, const std::vector<std::optional<double>>& parameters);

// The values of x under it, computed in compute_type.
TensorBox activated(OpContext& c, const TensorBox& x, const std::string& name,
                    const std::vector<std::optional<double>>& parameters);

}  // namespace braid::frontend
