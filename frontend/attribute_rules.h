// What attributes may say, for every operator that ONNX has a schema of.
#pragma once

#include <onnx/defs/schema.h>

#include <functional>
#include <optional>
#include <string>

namespace braid::frontend {

// One node, as far as its attributes have to agree with it.
struct NodeFacts {
  const onnx::OpSchema* schema;
  std::function<const onnx::AttributeProto*(const char* name)> attribute;  // null where it is not given
  std::function<std::optional<int>(std::size_t input)> rank;               // nullopt: not known, or no input
  std::size_t inputs = 0, outputs = 0;
};

// What is wrong with an attribute of the node: a type other than the schema's, a number that no model can
// mean (a flag of 2, a stride of 0, an axis beyond 32 bits), a list that is longer than any tensor has
// dimensions. The first one in the order of names; nullopt: nothing. Whether an axis is one of its tensor's
// is left to those who know the tensor.
std::optional<std::string> attribute_problem(const NodeFacts& node);

}  // namespace braid::frontend
