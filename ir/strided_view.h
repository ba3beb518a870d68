// Index expressions as strided views.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace braid::ir {

// The view whose element (i0, i1, ...) is element `at` of the buffer, an expression over these indices. nullopt if there is none:
// its strides are equal on all ranks, and only its offset may depend on where a rank is.
std::optional<TensorRef> strided_view(const Graph& graph, BufferId buffer, Expr at, std::vector<Expr> sizes);

}  // namespace braid::ir
