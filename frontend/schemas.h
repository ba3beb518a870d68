// Schemas of operators that ONNX's library lacks: this project's collectives (domain ai.braid), ONNX
// Runtime's (com.microsoft) and SimplifiedLayerNormalization. With them, ONNX's checker handles these
// operators.
#pragma once

namespace braid::frontend {

inline constexpr char kBraidDomain[] = "ai.braid";
inline constexpr char kMicrosoftDomain[] = "com.microsoft";

// Registers them in ONNX's registry. May be called any number of times, from any thread.
void register_schemas();

}  // namespace braid::frontend
