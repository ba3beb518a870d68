#include "frontend/load.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <limits>

#include "frontend/external_data.h"
#include "frontend/names_utf8.h"
#include "ir/error_numbers.h"

namespace braid::frontend {

using ir::user_error;

const std::string& name_of(const onnx::NodeProto& node) {
  static const std::string kUnnamed = "(unnamed)";
  if (!node.name().empty()) return node.name();
  for (const std::string& output : node.output()) {
    if (!output.empty()) return output;
  }
  return kUnnamed;
}

ir::Location location_of(const std::string& path, const onnx::NodeProto& node) {
  return {.file = path, .node = name_of(node), .op = node.op_type()};
}

namespace {

onnx::ModelProto parse(const std::string& path) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  const std::size_t size = file->bytes().size();
  if (size == 0) user_error(errors::kNotOnnx, {.file = path}, "the file is empty", "export the model again");
  if (size > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    user_error(errors::kNotOnnx, {.file = path},
               fmt::format("the file has {} bytes; a protobuf message has at most 2 GiB", size),
               "save the model with external data");
  }
  google::protobuf::io::ArrayInputStream stream(file->bytes().data(), static_cast<int>(size));
  google::protobuf::io::CodedInputStream coded(&stream);
  coded.SetTotalBytesLimit(std::numeric_limits<int>::max());
  onnx::ModelProto proto;
  if (!proto.ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage()) {
    user_error(errors::kNotOnnx, {.file = path}, "this is not an ONNX model, or it is truncated",
               "export or copy the model again");
  }
  if (!proto.has_graph()) {
    user_error(errors::kNotOnnx, {.file = path}, "this is not an ONNX model: it has no graph",
               "export or copy the model again");
  }
  check_names(path, proto);
  return proto;
}

}  // namespace

Model load_model(const std::string& path) {
  Model model{path, parse(path), {}};
  FileMap files{std::filesystem::path(path)};
  const ir::Location at{.file = path};
  onnx::GraphProto& graph = *model.proto.mutable_graph();
  for (onnx::TensorProto& proto : *graph.mutable_initializer()) {
    if (proto.name().empty())
      user_error(errors::kInvalidNode, at, "an initializer has no name", "export the model again");
    std::string name = proto.name();
    bool added = false;
    try {
      added = model.initializers.emplace(name, take_tensor(proto, files, at)).second;
    } catch (const ir::UserError& error) {
      if (error.code() != errors::kUnsupportedType) throw;
      added = model.initializers.count(name) == 0 && model.refused.emplace(name, error).second;
    }
    if (!added) {
      user_error(errors::kDuplicateName, at, fmt::format("two initializers are named '{}'", name),
                 "rename one of them");
    }
  }
  graph.clear_initializer();
  if (graph.sparse_initializer_size() > 0) {
    user_error(errors::kUnsupportedType, at,
               fmt::format("initializer '{}' is sparse", graph.sparse_initializer(0).values().name()),
               "store it as a dense tensor");
  }
  return model;
}

}  // namespace braid::frontend
