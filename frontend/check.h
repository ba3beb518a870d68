// Is the model one that ONNX allows and that we can lower? Everything that is wrong with a model is found
// here or by the lowering of a node, never later.
#pragma once

#include <map>
#include <string>
#include <unordered_map>

#include "frontend/load.h"

namespace braid::frontend {

// Imported version per domain; ONNX's own domain is "".
using Opsets = std::map<std::string, int>;

// Versions that are read: IR version, operator sets. UserErrors kIrVersion, kOpset.
Opsets check_versions(const Model& model);

// Names and edges of the graph: every value defined once and before it is used, no cycle, domains imported.
// One pass, because ONNX's checker would copy the whole model and name no nodes.
void check_structure(const Model& model, const Opsets& opsets);

// Values that are declared more than once (a graph input that is a graph output, say) are declared alike.
// ONNX's inference would believe the last one. UserErrors kTypeMismatch, kShapeMismatch.
void check_declarations(const Model& model);

// ONNX's checker: attributes and numbers of inputs and outputs against the operators' schemas.
void check_with_onnx(const Model& model);

// Types and shapes of all values by ONNX's inference, with data propagation. Contradictions are UserErrors.
using InferredTypes = std::unordered_map<std::string, const onnx::TypeProto*>;
void infer_shapes(Model& model);
// What the model says of its values after infer_shapes; points into the model.
InferredTypes types_of(const Model& model);

// What the model itself says of its values, before infer_shapes: where ONNX knows no better (sizes that
// depend on the number of ranks), inference believes it.
using DeclaredTypes = std::unordered_map<std::string, onnx::TypeProto>;
DeclaredTypes declared_types(const Model& model);

// All operators of the model that can neither be lowered nor replaced by a function body, in one UserError:
// those in bodies of functions too, and, where there are any, those in graphs that are attributes of nodes.
// What only a branch lacks is no error until it is known to be taken. `types` may be null: then element types
// are not looked at.
void check_supported(const Model& model, const Opsets& opsets, const InferredTypes* types);
// The same for a branch that is taken. Functions are not inlined there.
void check_supported(const Model& model, const Opsets& opsets, const onnx::GraphProto& branch);

}  // namespace braid::frontend
