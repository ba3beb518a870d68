// Reading ONNX files.
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "frontend/tensor.h"
#include "ir/error.h"

namespace braid::frontend {

// A model as stored in its file, with the weights moved out of the message: they are spans over the mapped
// file (external data) or over the strings that protobuf read (raw data) and are never copied again.
struct Model {
  std::string path;        // with "{rank}" where there is one file per rank
  onnx::ModelProto proto;  // its graph has no initializers
  std::map<std::string, Tensor> initializers;
  // Names of the initializers of a model split by Braid that follow from the number of the rank: positions
  // and offsets, no weights.
  std::set<std::string> coordinates = {};
  // Initializers of types that the IR lacks, and why: errors only if something reads them (drop_dead_nodes).
  std::map<std::string, ir::UserError> refused = {};
  // The names of the classes of graph outputs (class_outputs.h).
  std::map<std::string, std::vector<std::string>> classes = {};
};

// UserErrors: the file cannot be read or is not an ONNX model, or its initializers or external data are
// invalid.
Model load_model(const std::string& path);

// The location of a node for error messages. A node without a name is identified by its first output.
ir::Location location_of(const std::string& path, const onnx::NodeProto& node);
const std::string& name_of(const onnx::NodeProto& node);

}  // namespace braid::frontend
