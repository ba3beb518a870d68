// Brings a checked model into the form that is lowered: only operators of the registry, values that decide shapes in
// sight of inference.
#pragma once

#include "frontend/check.h"
#include "frontend/load.h"

namespace braid::frontend {

// Tells ONNX's checker and inference of the initializers without giving them the bytes of weights: small integer
// tensors, which may decide shapes, go back into the graph as initializers (unless ranks differ in them), all others
// become graph inputs.
void declare_initializers(Model& model);

// Replaces calls of the model's own functions, and operators without lowering but with a function body in their schema,
// by these bodies.
void inline_functions(Model& model, const Opsets& opsets);

}  // namespace braid::frontend
