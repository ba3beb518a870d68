// Indices that are read while running.
#pragma once

#include "frontend/ops/common.h"

namespace braid::frontend {

// An index that was read, as an index expression; negative ones count from the end. Out of range is an error
// of the step. What is known of a computed index (positions from a Range) saves the checks. `extents`: of the
// loop.
Expr checked_index(BodyBuilder& b, ValueId index, Expr size, std::span<const Expr> extents);

// The same as a value of type i64.
ValueId checked_position(BodyBuilder& b, ValueId index, Expr size, std::span<const Expr> extents);

}  // namespace braid::frontend
