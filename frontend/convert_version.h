// Brings old models to operator sets that can be lowered.
#pragma once

#include "frontend/check_structure.h"
#include "frontend/load.h"

namespace braid::frontend {

// Converts a model of an operator set before kOldestOpset to that one with ONNX's version converter, which keeps
// names of nodes and values. Returns whether it has. check_structure() must have passed. UserErrors
// kVersionConversion and those of ONNX's checker and inference, which the converter relies on; kUnsupportedOperators
// if that is why it fails.
bool convert_old_model(Model& model, const Opsets& opsets);

}  // namespace braid::frontend
