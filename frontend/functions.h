// The functions that a model brings along.
#pragma once

#include <string>

#include "frontend/load.h"

namespace braid::frontend {

// What a call and the function that it means have in common: domain, name and, from IR version 10 on,
// overload.
std::string function_key(const onnx::FunctionProto& function);
std::string function_key(const onnx::NodeProto& call);

// Functions have one definition each (kDuplicateName), do not call themselves, directly, through others or
// from branches (kRecursiveFunction), and replacing calls by bodies gives a model of reasonable size
// (kFunctionExpansion). Linear in the size of the file, and to be called before anything follows calls:
// thirty functions that call their predecessor twice stand for a billion nodes.
void check_functions(const Model& model);

}  // namespace braid::frontend
