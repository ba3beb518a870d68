// Brings old models to operator sets that can be lowered.
#pragma once

#include "frontend/check_structure.h"
#include "frontend/dims.h"
#include "frontend/load.h"

namespace braid::frontend {

// Those in whose definitions the operators of a model are lowered: kOldestOpset instead of an older one.
Opsets lowered_opsets(Opsets opsets);

// Converts a model of an operator set before kOldestOpset: its nodes get the form that their operators have
// in kOldestOpset, and keep their names and those of values. Returns whether the model was that old. ONNX's
// checker must have accepted the model. Throws kVersionConversion, and the errors of lowering where an
// operand lies along an axis, since the axis follows from sizes.
bool convert_old_model(Model& model, const Opsets& opsets, const DimBounds& dims, int ranks);

}  // namespace braid::frontend
