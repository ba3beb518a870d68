// Integer values followed as expressions, so that Shape -> Gather -> Concat -> Reshape works for sizes that
// are only known when the program runs.
#pragma once

#include <optional>

#include "frontend/op_context.h"

namespace braid::frontend {

// The elements of the node's outputs, all of them or none; nullopt where the operator is not one of those
// that models compute shapes with, an input is not known, or the result is too large to be followed. May
// throw ShapeRuleError.
struct ShapeValues {
  ir::DType dtype = ir::DType::i64;
  std::vector<Elements> outputs;
};
std::optional<ShapeValues> shape_values(OpContext& context);

}  // namespace braid::frontend
