// Models of single operators, each changed in one place: hostile sizes, types, attributes, and constants behind every operand.
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

// All changes of a model whose inputs have these values (fewer than it has inputs: of the first ones). In a fixed order.
std::vector<Mutation> mutations_of(const onnx::ModelProto& model, const std::vector<ir::Tensor>& inputs);

}  // namespace braid::frontend
