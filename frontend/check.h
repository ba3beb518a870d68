// Runs ONNX's checker on a model. Every error in a model is found by it, by check_structure.h, by
// check_supported.h or while a node is lowered, never later.
#pragma once

#include "frontend/load.h"

namespace braid::frontend {

// Checks attributes and numbers of inputs and outputs against the operators' schemas, and the scopes of
// names. Infers nothing. Throws kInvalidAttribute or kInvalidNode.
void check_with_onnx(const Model& model);

}  // namespace braid::frontend
