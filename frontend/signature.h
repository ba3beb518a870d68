// What a model takes, without lowering it.
#pragma once

#include <string>
#include <vector>

#include "ir/dtype.h"

namespace braid::frontend {

struct SignatureInput {
  std::string name;
  // A constant size as digits, else the name that --dim bounds (unnamed ones are called INPUT_AXIS).
  std::vector<std::string> dims;
};

// Graph inputs that are not initializers, in order. "{rank}" in the path stands for rank 0. User errors of
// load_model.
std::vector<SignatureInput> read_signature(const std::string& path);

}  // namespace braid::frontend
