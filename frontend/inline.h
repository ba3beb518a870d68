// Replaces function calls by their bodies.
#pragma once

#include <string>

#include "frontend/dims.h"
#include "frontend/load.h"

namespace braid::frontend {

// Whether ONNX's schema of the operator has a function body that is valid in this version of its domain.
bool has_function_body(const std::string& domain, const std::string& name, int version);

// Replaces calls of the model's own functions, and operators that cannot be lowered but have a function body
// in their schema, by these bodies until none are left, also in branches and loops. A body that ONNX makes
// for the types of its inputs needs the model lowered up to its call, and stays a call in branches. Inner
// nodes are named CALLER/INNER. Returns whether anything was replaced. (ONNX's inliner ignores attribute
// defaults and absent optional inputs of schema functions.)
bool inline_functions(Model& model, const DimBounds& dims, int ranks);

}  // namespace braid::frontend
