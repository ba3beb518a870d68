// Makes values that determine shapes visible to ONNX's inference.
#pragma once

#include "frontend/check_structure.h"
#include "frontend/load.h"

namespace braid::frontend {

// Replaces Constant nodes of other types than floats by initializers in models before operator set 9: exporters wrote
// them, mostly as sizes of Reshape, though Constant was declared for floats only, and ONNX's inference refuses them.
void lift_old_constants(Model& model, const Opsets& opsets);

// Declares the initializers to ONNX's checker and inference without the bytes of weights: small integer
// tensors, which may determine shapes, become initializers of the graph again (unless they differ between
// ranks), all others become graph inputs.
void declare_initializers(Model& model);

}  // namespace braid::frontend
