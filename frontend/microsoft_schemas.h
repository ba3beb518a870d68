// Schemas of the operators that ONNX Runtime's optimiser and other tools write: those of domain
// com.microsoft, and those in ONNX's own domain that ONNX's library lacks. Lowering checks sizes and infers
// them.
#pragma once

#include <onnx/defs/schema.h>

namespace braid::frontend {

// Registers them: attention, normalisations and activations, products, quantised operators.
void register_microsoft_attention();
void register_microsoft_normalizations();
void register_microsoft_products();
void register_microsoft_quantised();

// ---- for these files

// An operator of version 1.
onnx::OpSchema microsoft_operator(const char* name);

}  // namespace braid::frontend
