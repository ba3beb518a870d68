#include "frontend/normalise.h"

#include <fmt/format.h>
#include <onnx/defs/schema.h>
#include <onnx/inliner/inliner.h>

#include <algorithm>
#include <set>

#include "frontend/errors.h"
#include "frontend/op_registry.h"
#include "frontend/value.h"

namespace braid::frontend {

void declare_initializers(Model& model) {
  onnx::GraphProto& graph = *model.proto.mutable_graph();
  std::set<std::string> inputs;
  for (const onnx::ValueInfoProto& input : graph.input()) inputs.insert(input.name());
  for (const auto& [name, tensor] : model.initializers) {
    if (!is_float(tensor.dtype) && tensor.data.same_on_all_ranks() && tensor.count() <= kMaxElements) {
      onnx::TensorProto& proto = *graph.add_initializer();
      proto.set_name(name);
      proto.set_data_type(onnx_type_of(tensor.dtype));
      for (std::int64_t s : tensor.sizes) proto.add_dims(s);
      const std::span<const std::byte> bytes = tensor.data.of_rank(0);
      proto.set_raw_data(bytes.data(), bytes.size());
    } else if (!inputs.count(name)) {
      onnx::ValueInfoProto& value = *graph.add_input();
      value.set_name(name);
      onnx::TypeProto_Tensor& type = *value.mutable_type()->mutable_tensor_type();
      type.set_elem_type(onnx_type_of(tensor.dtype));
      type.mutable_shape();
      for (std::int64_t s : tensor.sizes) type.mutable_shape()->add_dim()->set_dim_value(s);
    }
  }
}

namespace {

// Operators with a body in their schema and no lowering of ours.
class Bodies : public onnx::inliner::FunctionIdSet {
 public:
  explicit Bodies(const Opsets& opsets) : opsets_(opsets) {}

  bool Contains(const std::string& function_domain, const std::string& name) const override {
    const std::string domain = function_domain == "ai.onnx" ? "" : function_domain;
    const auto opset = opsets_.find(domain);
    if (opset == opsets_.end() || find_op(domain, name, opset->second)) return false;
    const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(name, opset->second, domain);
    return schema && (schema->HasFunction() || schema->HasContextDependentFunction());
  }

 private:
  const Opsets& opsets_;
};

}  // namespace

void inline_functions(Model& model, const Opsets& opsets) {
  const Bodies bodies(opsets);
  try {
    if (model.proto.functions_size() > 0) onnx::inliner::InlineLocalFunctions(model.proto);
    const auto& nodes = model.proto.graph().node();
    if (std::any_of(nodes.begin(), nodes.end(), [&](const auto& n) { return bodies.Contains(n.domain(), n.op_type()); })) {
      onnx::inliner::InlineSelectedFunctions(model.proto, bodies, onnx::OpSchemaRegistry::Instance());
    }
  } catch (const std::runtime_error& error) {
    ir::user_error(kInvalidNode, {.file = model.path}, fmt::format("functions cannot be inlined: {}", error.what()),
                   "check the operator sets that the functions import");
  }
}

}  // namespace braid::frontend
