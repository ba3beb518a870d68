// Brings values that decide shapes into sight of ONNX's inference.
#pragma once

#include "frontend/load.h"

namespace braid::frontend {

// Tells ONNX's checker and inference of the initializers without giving them the bytes of weights: small
// integer tensors, which may decide shapes, go back into the graph as initializers (unless ranks differ in
// them), all others become graph inputs.
void declare_initializers(Model& model);

}  // namespace braid::frontend
