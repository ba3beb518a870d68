// Propagates integer values as expressions, so that Shape -> Gather -> Concat -> Reshape works for sizes
// known only at run time.
#pragma once

#include <optional>

#include "frontend/op_context.h"
#include "frontend/size_rule.h"

namespace braid::frontend {

// The elements of all of the node's outputs. nullopt if the rule has no values, an input is unknown, or the
// result is too large to propagate. May throw ShapeRuleError.
struct ShapeValues {
  ir::DType dtype = ir::DType::i64;
  std::vector<Elements> outputs;
};
std::optional<ShapeValues> shape_values(OpContext& context, const SizeRule& rule);

}  // namespace braid::frontend
