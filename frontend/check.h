// Checks that the model is valid ONNX and can be lowered. Every error in a model is found here or while a
// node is lowered, never later.
#pragma once

#include <map>
#include <string>
#include <unordered_map>

#include "frontend/load.h"

namespace braid::frontend {

// Imported version per domain; ONNX's own domain is "".
using Opsets = std::map<std::string, int>;

// Checks that the IR version and the operator sets are supported. UserErrors kIrVersion, kOpset.
Opsets check_versions(const Model& model);

// Checks names and edges of the graph: every value is defined once and before its use, there is no cycle,
// domains are imported. ONNX's checker would copy the whole model and name no nodes.
void check_structure(const Model& model, const Opsets& opsets);

// Checks that repeated declarations of a value (say, a graph input that is also an output) agree; ONNX's
// inference would use the last one. UserErrors kTypeMismatch, kShapeMismatch.
void check_declarations(const Model& model);

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
