#include "frontend/normalise.h"

#include <optional>
#include <set>
#include <utility>

#include "frontend/external_data.h"
#include "frontend/value.h"

namespace braid::frontend {

namespace {

bool is_old_constant(const onnx::NodeProto& node) {
  if (node.op_type() != "Constant" || (node.domain() != "" && node.domain() != "ai.onnx")) return false;
  if (node.attribute_size() != 1 || node.attribute(0).name() != "value" || node.output_size() != 1)
    return false;
  const std::optional<ir::DType> dtype = dtype_of_onnx(node.attribute(0).t().data_type());
  return dtype && (!is_float(*dtype) || *dtype == ir::DType::bf16);
}

}  // namespace

void lift_old_constants(Model& model, const Opsets& opsets) {
  constexpr int kConstantOfAllTypes = 9;
  const auto own = opsets.find("");
  if (own == opsets.end() || own->second >= kConstantOfAllTypes) return;
  FileMap files{std::filesystem::path(model.path)};
  google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
  nodes.Swap(model.proto.mutable_graph()->mutable_node());
  for (onnx::NodeProto& node : nodes) {
    if (is_old_constant(node)) {
      onnx::TensorProto& value = *node.mutable_attribute(0)->mutable_t();
      model.initializers.emplace(node.output(0), take_tensor(value, files, location_of(model.path, node)));
    } else {
      *model.proto.mutable_graph()->add_node() = std::move(node);
    }
  }
}

void declare_initializers(Model& model) {
  onnx::GraphProto& graph = *model.proto.mutable_graph();
  std::set<std::string> inputs;
  for (const onnx::ValueInfoProto& input : graph.input()) inputs.insert(input.name());
  for (const auto& [name, tensor] : model.initializers) {
    if (!is_float(tensor.dtype) && !is_storage(tensor.dtype) && tensor.data.same_on_all_ranks() &&
        tensor.count() <= kMaxElements) {
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

}  // namespace braid::frontend
