// Reading ONNX files.
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <string>
#include <vector>

#include "frontend/tensor.h"

namespace braid::frontend {

// A model as it stands in its file, with the weights taken out of the message: they are spans over the mapped
// file (external data) or over the strings that protobuf read (raw data), never copied again.
struct Model {
  std::string path;        // with "{rank}" where there is one file per rank
  onnx::ModelProto proto;  // its graph has no initializers
  std::map<std::string, Tensor> initializers;
};

// UserErrors: the file cannot be read, is no ONNX model, or its initializers or external data are broken.
Model load_model(const std::string& path);

// One file per rank where `path` holds "{rank}". The graphs must be equal; initializers that differ get one
// entry per rank in their ConstantData, equal ones are shared.
Model load_ranks(const std::string& path, int ranks);

// Where a node is, for error messages. A node without a name is called after its first output.
ir::Location location_of(const std::string& path, const onnx::NodeProto& node);
std::string name_of(const onnx::NodeProto& node);

}  // namespace braid::frontend
