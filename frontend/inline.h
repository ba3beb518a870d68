// Functions replaced by their bodies.
#pragma once

#include "frontend/check.h"
#include "frontend/load.h"

namespace braid::frontend {

// The operator has a function body in ONNX's schema that is valid in that version of its domain.
bool has_function_body(const std::string& domain, const std::string& name, int version);

// Replaces calls of the model's own functions, and operators without lowering but with a function body in
// their schema, by these bodies, until none are left. Inner nodes are called CALLER/INNER. Returns true where
// anything was replaced. (ONNX's inliner leaves out the defaults of attributes and absent optional inputs of
// schema functions.)
bool inline_functions(Model& model);

}  // namespace braid::frontend
