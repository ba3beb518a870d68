// Facts about a model that need neither bounds of dimensions nor a number of ranks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/error.h"

namespace braid::frontend {

struct ModelFacts {
  struct Value {
    std::string name;
    std::string type;               // "f32", ONNX's name of a type that the IR lacks, or "sequence" and so on
    std::vector<std::string> dims;  // sizes, or names that --dim takes
    bool ranked = true;             // false: the model declares no shape
    std::vector<std::string> classes = {};  // class_outputs.h
  };
  struct Operator {
    std::string domain, name;
    int count = 0;  // also in branches, loops and functions of the model
    bool communicates = false;
  };
  struct Unsupported {
    std::string op, reason;
    std::vector<std::string> nodes;
  };

  std::int64_t ir_version = 0;
  std::string producer;
  std::map<std::string, int> opsets;  // by domain
  std::vector<Value> inputs, outputs;
  std::set<std::string> dims;
  std::vector<Operator> operators;  // the most frequent first
  std::vector<Unsupported> unsupported;
  std::int64_t weights = 0, weight_bytes = 0;
  // Another error, for which the model is refused.
  std::optional<ir::UserError> refused;
};

// "{rank}" in the path stands for rank 0. User errors of load_model.
ModelFacts inspect_model(const std::string& path);

}  // namespace braid::frontend
