// Checks that the model is valid ONNX and can be lowered. Every error in a model is found here or while a
// node is lowered, never later.
#pragma once

#include <string>
#include <unordered_map>

#include "frontend/check_structure.h"
#include "frontend/load.h"

namespace braid::frontend {

// Runs ONNX's checker: attributes and numbers of inputs and outputs against the operators' schemas.
void check_with_onnx(const Model& model);

// Infers types and shapes of all values with ONNX's inference and data propagation. Contradictions are
// UserErrors.
using InferredTypes = std::unordered_map<std::string, const onnx::TypeProto*>;
void infer_shapes(Model& model);
// The model's value types after infer_shapes; points into the model.
InferredTypes types_of(const Model& model);

// The value types that the model itself declares, before infer_shapes. Inference uses them where ONNX cannot
// infer sizes (those that depend on the number of ranks).
using DeclaredTypes = std::unordered_map<std::string, onnx::TypeProto>;
DeclaredTypes declared_types(const Model& model);

// Reports all operators that can neither be lowered nor replaced by a function body in one UserError,
// including those in function bodies and, if there are any, those in subgraphs. An operator missing only in a
// branch is no error until the branch is known to be taken. If `types` is null, element types are not
// checked.
void check_supported(const Model& model, const Opsets& opsets, const InferredTypes* types);
// The same for a branch that is taken. Functions are not inlined in it.
void check_supported(const Model& model, const Opsets& opsets, const onnx::GraphProto& branch);

}  // namespace braid::frontend
