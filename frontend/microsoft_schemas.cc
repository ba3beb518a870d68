#include "frontend/microsoft_schemas.h"

#include "frontend/schemas.h"

namespace braid::frontend {

onnx::OpSchema microsoft_operator(const char* name) {
  onnx::OpSchema schema(name, __FILE__, __LINE__);
  schema.SetDomain(kMicrosoftDomain).SinceVersion(1);
  return schema;
}

Dim dim_of(std::int64_t value) {
  Dim dim;
  dim.set_dim_value(value);
  return dim;
}

bool has_input(onnx::InferenceContext& ctx, std::size_t k) {
  return k < ctx.getNumInputs() && ctx.getInputType(k) != nullptr;
}

std::optional<std::vector<Dim>> dims_of(onnx::InferenceContext& ctx, std::size_t k, int rank) {
  if (!has_input(ctx, k) || !onnx::hasInputShape(ctx, k)) return std::nullopt;
  const onnx::TensorShapeProto& shape = onnx::getInputShape(ctx, k);
  if (rank >= 0 && shape.dim_size() != rank) return std::nullopt;
  return std::vector<Dim>(shape.dim().begin(), shape.dim().end());
}

Dim add(const Dim& a, const Dim& b) {
  if (a.has_dim_value() && a.dim_value() == 0) return b;
  if (b.has_dim_value() && b.dim_value() == 0) return a;
  std::int64_t sum = 0;
  const bool known = a.has_dim_value() && b.has_dim_value();
  if (!known || __builtin_add_overflow(a.dim_value(), b.dim_value(), &sum)) return {};
  return dim_of(sum);
}

Dim times(const Dim& a, std::int64_t factor) {
  std::int64_t product = 0;
  if (!a.has_dim_value() || __builtin_mul_overflow(a.dim_value(), factor, &product)) return {};
  return dim_of(product);
}

Dim over(const Dim& a, std::int64_t divisor) {
  if (!a.has_dim_value() || divisor < 1 || a.dim_value() % divisor != 0) return {};
  return dim_of(a.dim_value() / divisor);
}

std::int64_t int_of(onnx::InferenceContext& ctx, const char* name, std::int64_t fallback) {
  const onnx::AttributeProto* attribute = ctx.getAttribute(name);
  return attribute ? attribute->i() : fallback;
}

void set_type(onnx::InferenceContext& ctx, std::size_t k, int elem_type) {
  if (k < ctx.getNumOutputs()) ctx.getOutputType(k)->mutable_tensor_type()->set_elem_type(elem_type);
}

void set_type_of_input(onnx::InferenceContext& ctx, std::size_t input, std::size_t k) {
  if (k < ctx.getNumOutputs() && has_input(ctx, input))
    onnx::propagateElemTypeFromInputToOutput(ctx, input, k);
}

void set_dims(onnx::InferenceContext& ctx, std::size_t k, const std::vector<Dim>& dims) {
  if (k >= ctx.getNumOutputs()) return;
  onnx::TensorShapeProto& shape = *ctx.getOutputType(k)->mutable_tensor_type()->mutable_shape();
  shape.clear_dim();
  for (const Dim& dim : dims) *shape.add_dim() = dim;
}

}  // namespace braid::frontend
