// Schemas of the operators that ONNX Runtime's optimiser and other tools write (domain com.microsoft) and of those that it has in
// ONNX's own domain, where ONNX's library lacks them. Lowering checks sizes; inference leaves a shape out if inputs do not fit.
#pragma once

#include <onnx/defs/schema.h>
#include <onnx/defs/shape_inference.h>

#include <optional>
#include <string>
#include <vector>

namespace braid::frontend {

// Registers them: attention, normalisations and activations, products, quantised operators.
void register_microsoft_attention();
void register_microsoft_normalizations();
void register_microsoft_products();
void register_microsoft_quantised();

// ---- for these files

// An operator of version 1.
onnx::OpSchema microsoft_operator(const char* name);

using Dim = onnx::TensorShapeProto::Dimension;

Dim dim_of(std::int64_t value);
// The shape of input k if it is known and has this rank (any rank if negative).
std::optional<std::vector<Dim>> dims_of(onnx::InferenceContext& ctx, std::size_t k, int rank = -1);
// Sum, product and quotient where they are known.
Dim add(const Dim& a, const Dim& b);
Dim times(const Dim& a, std::int64_t factor);
Dim over(const Dim& a, std::int64_t divisor);

bool has_input(onnx::InferenceContext& ctx, std::size_t k);
std::int64_t int_of(onnx::InferenceContext& ctx, const char* name, std::int64_t fallback);

// Sets output k if it is there.
void set_type(onnx::InferenceContext& ctx, std::size_t k, int elem_type);
void set_type_of_input(onnx::InferenceContext& ctx, std::size_t input, std::size_t k);
void set_dims(onnx::InferenceContext& ctx, std::size_t k, const std::vector<Dim>& dims);

}  // namespace braid::frontend
