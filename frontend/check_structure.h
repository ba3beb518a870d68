// Checks of a model that do not depend on its operators: versions, names and edges.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "frontend/load.h"

namespace braid::frontend {

// Imported version per domain; ONNX's own domain is "".
using Opsets = std::map<std::string, int>;

// Checks that the IR version and the operator sets are supported. UserErrors kIrVersion, kOpset.
Opsets check_versions(const Model& model);

// Checks names and edges of the graph: every value is defined once and before its use, there is no cycle,
// domains are imported. ONNX's checker would copy the whole model and name no nodes.
void check_structure(const Model& model, const Opsets& opsets);

// Checks that an initializer has the type and the sizes of the graph input of its name. Throws kTypeMismatch
// or kShapeMismatch. `note` receives a note for each other declaration of them that differs; may be null.
void check_declarations(const Model& model, const std::function<void(const std::string& text)>& note);

}  // namespace braid::frontend
