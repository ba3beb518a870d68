// Runs ONNX's checker on a model. Every error in a model is found by it, by check_structure.h, by
// check_supported.h or while a node is lowered, never later.
#pragma once

#include <functional>
#include <string>

#include "frontend/load.h"

namespace braid::frontend {

// Checks attributes and numbers of inputs and outputs against the operators' schemas, and the scopes of
// names. Infers nothing. In branches of If it checks only the names, because one that is never taken refuses
// no model. Throws kInvalidAttribute or kInvalidNode.
void check_with_onnx(const Model& model);
// Checks a branch that may be taken. `is_defined` tells whether the graphs around it define a value.
void check_with_onnx(const Model& model, const onnx::GraphProto& branch,
                     const std::function<bool(const std::string& value)>& is_defined);

}  // namespace braid::frontend
