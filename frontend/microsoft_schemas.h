// Schemas of the operators of domain com.microsoft, which ONNX Runtime's optimiser and other tools write.
// Lowering checks sizes and infers them.
#pragma once

namespace braid::frontend {

// As rows of text (schema_text.h).
extern const char* const kMicrosoftSchemas;

}  // namespace braid::frontend
