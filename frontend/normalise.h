// Makes values that determine shapes visible to ONNX's inference.
#pragma once

#include "frontend/load.h"

namespace braid::frontend {

// Declares the initializers to ONNX's checker and inference without the bytes of weights: small integer
// tensors, which may determine shapes, become initializers of the graph again (unless they differ between
// ranks), all others become graph inputs.
void declare_initializers(Model& model);

}  // namespace braid::frontend
