// Models of single operators, each changed in one place: hostile sizes, types and attributes, and
// constants as operands.
#pragma once

#include <onnx/onnx_pb.h>

#include <functional>
#include <string>
#include <vector>

#include "ir/tensor.h"

namespace braid::frontend {

struct Mutation {
  std::string what;
  std::function<void(onnx::ModelProto&)> apply;
};

// Returns all changes of a model whose inputs have these values (fewer values than inputs: of the first
// ones), in a fixed order.
std::vector<Mutation> mutations_of(const onnx::ModelProto& model, const std::vector<ir::Tensor>& inputs);

}  // namespace braid::frontend
