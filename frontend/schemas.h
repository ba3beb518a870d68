// Schemas of operators that ONNX's library does not know: this project's collectives (domain ai.braid), ONNX
// Runtime's (com.microsoft) and SimplifiedLayerNormalization. With them the checker checks their attributes
// and inference infers through them.
#pragma once

namespace braid::frontend {

inline constexpr char kBraidDomain[] = "ai.braid";
inline constexpr char kMicrosoftDomain[] = "com.microsoft";

// Registers them in ONNX's registry; any number of calls from any thread.
void register_schemas();

}  // namespace braid::frontend
