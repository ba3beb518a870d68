// The functions that a model defines.
#pragma once

#include <string>

#include "frontend/load.h"

namespace braid::frontend {

// The key that a call and its function share: domain, name and, from IR version 10 on, overload.
std::string function_key(const onnx::FunctionProto& function);
std::string function_key(const onnx::NodeProto& call);

// Checks that each function has one definition (kDuplicateName), does not call itself directly, through
// others or from branches (kRecursiveFunction), and that inlining gives a model of reasonable size
// (kFunctionExpansion). Linear in the size of the file. Call it before anything follows calls: thirty
// functions that each call their predecessor twice expand to a billion nodes.
void check_functions(const Model& model);

}  // namespace braid::frontend
