// ONNX's checker and shape inference on a model. Every error in a model is found here, by check_supported.h or while a
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

}  // namespace braid::frontend
