#include "frontend/normalise.h"

#include <set>

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

}  // namespace braid::frontend
