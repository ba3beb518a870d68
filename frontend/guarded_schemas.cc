#include "frontend/guarded_schemas.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "frontend/attribute_rules.h"

namespace braid::frontend {
namespace {

using onnx::AttributeProto;
using onnx::TensorShapeProto;
using onnx::TypeProto;

void check_attributes(const onnx::OpSchema& schema, onnx::InferenceContext& context) {
  const NodeFacts facts = {&schema, [&](const char* name) { return context.getAttribute(name); },
                           [&](std::size_t k) -> std::optional<int> {
                             if (k >= context.getNumInputs() || !onnx::hasInputShape(context, k))
                               return std::nullopt;
                             return onnx::getInputShape(context, k).dim_size();
                           },
                           context.getNumInputs(), context.getNumOutputs()};
  if (const std::optional<std::string> problem = attribute_problem(facts)) fail_shape_inference(*problem);
}

bool fits_int(const TensorShapeProto::Dimension& dim) {
  return !dim.has_dim_value() ||
         (dim.dim_value() >= 0 && dim.dim_value() <= std::numeric_limits<std::int32_t>::max());
}

// The node with those sizes left out that ONNX could not compute with.
class KnownSizes final : public onnx::InferenceContext {
 public:
  explicit KnownSizes(onnx::InferenceContext& node) : node_(node), types_(node.getNumInputs()) {
    for (std::size_t k = 0; k < types_.size(); ++k) {
      const TypeProto* type = node.getInputType(k);
      if (!type || !type->has_tensor_type()) continue;
      const auto& dims = type->tensor_type().shape().dim();
      if (std::all_of(dims.begin(), dims.end(), fits_int)) continue;
      types_[k] = *type;
      for (auto& dim : *types_[k]->mutable_tensor_type()->mutable_shape()->mutable_dim()) {
        if (!fits_int(dim)) dim.clear_dim_value();
      }
    }
  }

  const TypeProto* getInputType(std::size_t k) const override {
    return k < types_.size() && types_[k] ? &*types_[k] : node_.getInputType(k);
  }
  const AttributeProto* getAttribute(const std::string& name) const override {
    return node_.getAttribute(name);
  }
  std::size_t getNumInputs() const override { return node_.getNumInputs(); }
  bool hasInput(std::size_t k) const override { return node_.hasInput(k); }
  const onnx::TensorProto* getInputData(std::size_t k) const override { return node_.getInputData(k); }
  std::size_t getNumOutputs() const override { return node_.getNumOutputs(); }
  TypeProto* getOutputType(std::size_t k) override { return node_.getOutputType(k); }
  bool hasOutput(std::size_t k) override { return node_.hasOutput(k); }
  onnx::GraphInferencer* getGraphAttributeInferencer(const std::string& name) override {
    return node_.getGraphAttributeInferencer(name);
  }
  const onnx::SparseTensorProto* getInputSparseData(std::size_t k) const override {
    return node_.getInputSparseData(k);
  }
  const TensorShapeProto* getSymbolicInput(std::size_t k) const override { return node_.getSymbolicInput(k); }
  std::string getDisplayName() const override { return node_.getDisplayName(); }

 private:
  onnx::InferenceContext& node_;
  std::vector<std::optional<TypeProto>> types_;  // of inputs, where they differ from the node's
};

// ONNX adds the sizes of Concat's inputs in 32 bits.
void forget_sum_of_sizes(onnx::InferenceContext& context) {
  TypeProto* output = context.getOutputType(0);
  const AttributeProto* given = context.getAttribute("axis");
  if (!given || !output->has_tensor_type() || !output->tensor_type().has_shape()) return;
  const int rank = output->tensor_type().shape().dim_size();
  const std::int64_t axis = given->i() < 0 ? given->i() + rank : given->i();
  if (axis < 0 || axis >= rank) return;
  const int d = static_cast<int>(axis);
  std::int64_t sum = 0;
  for (std::size_t k = 0; k < context.getNumInputs(); ++k) {
    if (!onnx::hasInputShape(context, k) || onnx::getInputShape(context, k).dim_size() != rank) continue;
    sum += onnx::getInputShape(context, k).dim(d).dim_value();
    if (sum < 0 || sum > std::numeric_limits<std::int32_t>::max()) {
      output->mutable_tensor_type()->mutable_shape()->mutable_dim(d)->clear_dim_value();
      return;
    }
  }
}

// ONNX takes an absent `onesided` for 0, but its default is 1.
void forget_number_of_bins(onnx::InferenceContext& context) {
  TypeProto* output = context.getOutputType(0);
  if (context.getAttribute("onesided") || !output->has_tensor_type() || !output->tensor_type().has_shape())
    return;
  TensorShapeProto& shape = *output->mutable_tensor_type()->mutable_shape();
  if (shape.dim_size() == 4) shape.mutable_dim(2)->clear_dim_value();
}

// ONNX refuses a Resize whose `sizes` it does not know at all. Infers the type and number of dimensions then.
bool infer_unknown_resize(onnx::InferenceContext& context) {
  constexpr std::size_t kSizes = 3;
  if (context.getNumInputs() <= kSizes || !context.hasInput(kSizes)) return false;
  if (context.getInputData(kSizes) || context.getSymbolicInput(kSizes)) return false;
  if (onnx::hasInputShape(context, kSizes)) {
    const TensorShapeProto& shape = onnx::getInputShape(context, kSizes);
    if (shape.dim_size() != 1 || shape.dim(0).has_dim_value()) return false;
  }
  onnx::propagateElemTypeFromInputToOutput(context, 0, 0);
  if (!onnx::hasInputShape(context, 0)) return true;
  TensorShapeProto& output = *context.getOutputType(0)->mutable_tensor_type()->mutable_shape();
  const int rank = onnx::getInputShape(context, 0).dim_size();
  while (output.dim_size() < rank) output.add_dim();
  return true;
}

bool is_set(onnx::InferenceContext& context, const char* name) {
  const AttributeProto* given = context.getAttribute(name);
  return given && (given->i() != 0 || given->ints_size() > 0);
}

// Of pools and convolutions.
void forget_spatial_sizes(onnx::InferenceContext& context) {
  for (std::size_t k = 0; k < context.getNumOutputs(); ++k) {
    TypeProto* output = context.getOutputType(k);
    if (!output->has_tensor_type() || !output->tensor_type().has_shape()) continue;
    TensorShapeProto& shape = *output->mutable_tensor_type()->mutable_shape();
    for (int d = 2; d < shape.dim_size(); ++d) shape.mutable_dim(d)->clear_dim_value();
  }
}

// ONNX adds output_padding to sizes that auto_pad fixes, and leaves off dimensions if output_shape is smaller than the input.
void forget_sizes_of_transposed(onnx::InferenceContext& context) {
  if (context.getAttribute("output_shape")) {
    TypeProto* output = context.getOutputType(0);
    if (output->has_tensor_type() && onnx::hasInputShape(context, 0) &&
        output->tensor_type().shape().dim_size() != onnx::getInputShape(context, 0).dim_size())
      output->mutable_tensor_type()->clear_shape();
  } else if (is_set(context, "output_padding") && context.getAttribute("auto_pad")) {
    forget_spatial_sizes(context);
  }
}

// Propagates values of short integer tensors; long ones stay unknown, and so do those of a Slice's operands if one element is unknown:
// ONNX takes a start or end that it does not know for 0.
class ShortValues final : public onnx::DataPropagationContext {
 public:
  ShortValues(onnx::DataPropagationContext& node, bool slices, std::int64_t& elements_left)
      : node_(node), slices_(slices), elements_left_(elements_left) {}

  const TensorShapeProto* getInputData(std::size_t k) override {
    const TypeProto* type = node_.getInputType(k);
    if (!type || !type->has_tensor_type()) return nullptr;
    const int element = type->tensor_type().elem_type();
    if (element != onnx::TensorProto::INT64 && element != onnx::TensorProto::INT32) return nullptr;
    const TensorShapeProto& shape = type->tensor_type().shape();
    constexpr std::int64_t kLongest = 1024;  // suffices for shapes and for vectors of sizes to choose from
    const std::int64_t size = shape.dim_size() == 1 ? shape.dim(0).dim_value() : shape.dim_size();
    if (size < 0 || size > kLongest || size > elements_left_) return nullptr;
    elements_left_ -= size;
    const TensorShapeProto* values = node_.getInputData(k);
    if (values && slices_ && k > 0 &&
        !std::all_of(values->dim().begin(), values->dim().end(), [](auto& v) { return v.has_dim_value(); }))
      return nullptr;
    return values;
  }
  void addOutputData(std::size_t k, TensorShapeProto&& values) override {
    node_.addOutputData(k, std::move(values));
  }
  const AttributeProto* getAttribute(const std::string& name) const override {
    return node_.getAttribute(name);
  }
  std::size_t getNumInputs() const override { return node_.getNumInputs(); }
  const TypeProto* getInputType(std::size_t k) const override { return node_.getInputType(k); }
  std::size_t getNumOutputs() const override { return node_.getNumOutputs(); }
  const TypeProto* getOutputType(std::size_t k) const override { return node_.getOutputType(k); }

 private:
  onnx::DataPropagationContext& node_;
  bool slices_;
  std::int64_t& elements_left_;
};

}  // namespace

const onnx::OpSchema* GuardedSchemas::GetSchema(const std::string& name, int version,
                                                const std::string& domain) const {
  const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Instance()->GetSchema(name, version, domain);
  if (!schema) return nullptr;
  std::unique_ptr<onnx::OpSchema>& guarded = guarded_[schema];
  if (guarded) return guarded.get();
  guarded = std::make_unique<onnx::OpSchema>(*schema);
  if (schema->has_type_and_shape_inference_function()) {
    guarded->TypeAndShapeInferenceFunction([schema](onnx::InferenceContext& context) {
      check_attributes(*schema, context);
      KnownSizes node(context);
      if (schema->Name() == "Resize" && infer_unknown_resize(node)) return;
      schema->GetTypeAndShapeInferenceFunction()(node);
      if (schema->Name() == "Concat") forget_sum_of_sizes(node);
      if (schema->Name() == "STFT") forget_number_of_bins(node);
      if (schema->Name() == "ConvTranspose") forget_sizes_of_transposed(node);
      // Before version 22 ONNX also counts windows that would begin in the padding at the end.
      if (schema->SinceVersion() < 22 && is_set(node, "ceil_mode")) forget_spatial_sizes(node);
    });
  }
  // ONNX would infer through the function body, some of whose constants are f32 whatever the input is.
  if (!schema->has_type_and_shape_inference_function() &&
      (name == "MeanVarianceNormalization" || name == "GroupNormalization")) {
    guarded->TypeAndShapeInferenceFunction([schema](onnx::InferenceContext& context) {
      check_attributes(*schema, context);
      KnownSizes node(context);
      onnx::propagateShapeAndTypeFromFirstInput(node);
    });
  }
  if (schema->has_data_propagation_function()) {
    guarded->PartialDataPropagationFunction([schema, this](onnx::DataPropagationContext& context) {
      ShortValues node(context, schema->Name() == "Slice", elements_left_);
      schema->GetDataPropagationFunction()(node);
    });
  }
  return guarded.get();
}

}  // namespace braid::frontend
