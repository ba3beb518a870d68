// Schemas of ONNX Runtime's quantised operators (com.microsoft), which its quantiser and optimiser write.
#pragma once

namespace braid::frontend {

// Registers them in ONNX's registry; register_schemas() calls it once.
void register_quantised_schemas();

}  // namespace braid::frontend
