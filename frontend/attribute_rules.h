// Which attribute values are valid, for every operator with an ONNX schema.
#pragma once

#include <onnx/defs/schema.h>

#include <functional>
#include <optional>
#include <string>

namespace braid::frontend {

// The facts about a node that its attributes must agree with.
struct NodeFacts {
  const onnx::OpSchema* schema;
  std::function<const onnx::AttributeProto*(const char* name)> attribute;  // null if absent
  std::function<std::optional<int>(std::size_t input)> rank;  // nullopt: unknown, or no such input
  std::size_t inputs = 0, outputs = 0;
};

// The first invalid attribute of the node, by name: a type other than the schema's, a meaningless number (a
// flag of 2, a stride of 0, an axis beyond 32 bits), or a list longer than any tensor's rank. nullopt if all
// are valid. Whether an axis exists in its tensor is checked elsewhere.
std::optional<std::string> attribute_problem(const NodeFacts& node);

}  // namespace braid::frontend
