// Replaces function calls by their bodies.
#pragma once

#include <optional>
#include <string>

#include "frontend/check.h"
#include "frontend/load.h"

namespace braid::frontend {

// Whether ONNX's schema of the operator has a function body that is valid in this version of its domain.
bool has_function_body(const std::string& domain, const std::string& name, int version);

// That body, for a node whose inputs have these types. nullopt if ONNX has none for this form of the operator;
// std::runtime_error if it cannot be built.
std::optional<onnx::FunctionProto> schema_function_body(onnx::NodeProto node, int version,
                                                        const InferredTypes& types);

// Replaces calls of the model's own functions, and operators that cannot be lowered but have a function body
// in their schema, by these bodies until none are left. Inner nodes are named CALLER/INNER. Returns whether
// anything was replaced. (ONNX's inliner ignores attribute defaults and absent optional inputs of schema
// functions.)
bool inline_functions(Model& model);

}  // namespace braid::frontend
