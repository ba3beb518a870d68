#include "frontend/signature.h"

#include <fmt/format.h>

#include "frontend/dims.h"
#include "frontend/load.h"
#include "frontend/load_ranks.h"

namespace braid::frontend {
namespace {

const char* kind_of(const onnx::TypeProto& type) {
  switch (type.value_case()) {
    case onnx::TypeProto::kTensorType:
      return "tensor";
    case onnx::TypeProto::kSequenceType:
      return "sequence";
    case onnx::TypeProto::kOptionalType:
      return "optional";
    case onnx::TypeProto::kMapType:
      return "map";
    case onnx::TypeProto::kSparseTensorType:
      return "sparse tensor";
    default:
      return "";
  }
}

SignatureValue signature_of(const onnx::ValueInfoProto& value) {
  SignatureValue s{.name = value.name(), .kind = kind_of(value.type())};
  const int element = value.type().tensor_type().elem_type();
  if (element != onnx::TensorProto::UNDEFINED && onnx::TensorProto::DataType_IsValid(element)) {
    s.element = onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(element));
    for (char& c : s.element) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  int axis = 0;
  for (const auto& dim : value.type().tensor_type().shape().dim()) {
    const bool known = dim.has_dim_value() && dim.dim_value() != -1;  // which dims.cc takes for unknown
    s.dims.push_back(known                      ? fmt::format("{}", dim.dim_value())
                     : !dim.dim_param().empty() ? dim.dim_param()
                                                : fmt::format("{}_{}", value.name(), axis));
    ++axis;
  }
  return s;
}

}  // namespace

Signature read_signature(const std::string& path) {
  const Model model = load_model(path_of_rank(path, 0));
  Signature signature;
  for (const onnx::ValueInfoProto* input : true_inputs(model))
    signature.inputs.push_back(signature_of(*input));
  for (const onnx::ValueInfoProto& output : model.proto.graph().output())
    signature.outputs.push_back(signature_of(output));
  return signature;
}

}  // namespace braid::frontend
