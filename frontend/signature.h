// A model's inputs and outputs, read without lowering it.
#pragma once

#include <string>
#include <vector>

#include "ir/dtype.h"

namespace braid::frontend {

struct SignatureValue {
  std::string name;
  std::string
      kind;  // "tensor", "sequence", "optional", "map" or "sparse tensor"; "" where the model does not say
  std::string element;  // of a tensor, as ONNX names it: "float", "int64"; "" where the model does not say
  // For a tensor: a constant size as digits, otherwise the name that --dim bounds (NAME_AXIS if it is
  // unnamed).
  std::vector<std::string> dims;
};

struct Signature {
  std::vector<SignatureValue> inputs;  // graph inputs that are not initializers, in order
  std::vector<SignatureValue> outputs;
};

// "{rank}" in the path stands for rank 0. User errors of load_model.
Signature read_signature(const std::string& path);

}  // namespace braid::frontend
