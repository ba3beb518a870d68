// Brings old models to operator sets that can be lowered.
#pragma once

#include "frontend/check_structure.h"
#include "frontend/dims.h"
#include "frontend/load.h"

namespace braid::frontend {

// Those in whose definitions the operators of a model are lowered: kOldestOpset instead of an older one.
Opsets lowered_opsets(Opsets opsets);

// Gives the nodes of a model of an operator set before kOldestOpset the form that their operators have in that one, and keeps the names of
// nodes and values. Returns whether it has. ONNX's checker must have accepted the model. UserErrors kVersionConversion, and
// those of lowering where an operand lies along an axis: how it does follows from sizes.
bool convert_old_model(Model& model, const Opsets& opsets, const DimBounds& dims, int ranks);

}  // namespace braid::frontend
