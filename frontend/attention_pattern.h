// Lowers attention that match_attention.h has found as one operation, if its sizes, types and constants are
// those of attention.
#pragma once

#include <functional>
#include <optional>

#include "frontend/match_attention.h"
#include "frontend/op_context.h"

namespace braid::frontend {

struct PatternGraph {
  const onnx::GraphProto& graph;
  std::function<Value*(const std::string&)> value;                     // null if it has not been lowered
  std::function<OpContext(const onnx::NodeProto&)> context;            // inputs without a value are absent
  std::function<const onnx::NodeProto*(const std::string&)> producer;  // null: a graph input or constant
};

// The value of the pattern's result; nullopt if this is something else. Then nothing has been emitted.
std::optional<ir::TensorBox> lower_pattern(const PatternGraph& graph, const AttentionPattern& pattern);

}  // namespace braid::frontend
