// Checks that every operator of a model can be lowered or replaced by a function body.
#pragma once

#include "frontend/check.h"
#include "frontend/load.h"

namespace braid::frontend {

// Each of these names all operators that are not supported in one UserError (kUnsupportedOperators), with version,
// reason and nodes; those in function bodies included and, if there are any others, those in branches: an operator
// missing only in a branch is no error until the branch is known to be taken.

// Before anything else is done with the model: operators and versions. If the model is refused, element types are
// checked too as far as they can be inferred, so that one message has them all.
void check_supported(const Model& model, const Opsets& opsets);
// After inference: element types as well.
void check_supported(const Model& model, const Opsets& opsets, const InferredTypes& types);
// The same as a list, empty if everything is supported. Element types are checked as far as they can be inferred.
struct UnsupportedOperator {
  std::string op;  // "GRU-14", "com.example.Sort-1"
  std::string reason;
  std::vector<std::string> nodes;
};
std::vector<UnsupportedOperator> unsupported_operators(const Model& model, const Opsets& opsets);
// The nodes of a branch that is taken. Functions are not inlined in it.
void check_supported(const Model& model, const Opsets& opsets, const onnx::GraphProto& branch);

}  // namespace braid::frontend
