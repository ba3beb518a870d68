// Indices that are read at run time.
#pragma once

#include "frontend/ops/common.h"

namespace braid::frontend {

// An index value as an index expression; negative ones count from the end. An index out of range is an error
// of the step. Checks are omitted if the range of a computed index is known (positions from a Range).
// `extents` are those of the loop.
Expr checked_index(BodyBuilder& b, ValueId index, Expr size, std::span<const Expr> extents);

// The same as a value of type i64.
ValueId checked_position(BodyBuilder& b, ValueId index, Expr size, std::span<const Expr> extents);

}  // namespace braid::frontend
