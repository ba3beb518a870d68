// ONNX's TensorProto files (.pb), as the backend test suites store inputs and outputs.
#pragma once

#include <string>

#include "ir/tensor.h"

namespace braid::frontend {

struct NamedTensor {
  std::string name;  // may be empty
  ir::Tensor tensor;
};

// User errors: BR0001 the file cannot be read, BR0101 it is not a TensorProto, BR0115 its element type is not
// in the IR (this includes sequences and optionals).
NamedTensor read_tensor_file(const std::string& path);

}  // namespace braid::frontend
