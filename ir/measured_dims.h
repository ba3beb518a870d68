// Dimensions whose values are known only within a step, from where an operation measures them (Measure):
// the number of elements that NonZero finds. Their upper bounds are capacities, for which memory is
// planned; loops run over the value. No input has such a size.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace braid::ir {

// The operation that measures the dimension, if one does.
std::optional<OpId> measured_by(const Graph& graph, Expr dim);
// Whether the expression mentions a measured dimension.
bool is_measured(const Graph& graph, Expr e);

// Calls visit(Expr) for every size, stride, offset and index that the operation or, for a region kernel, an
// operation inside of it evaluates. Expressions may come several times.
void for_each_expr(const Graph& graph, OpId op, const std::function<void(Expr)>& visit);
// The measures that must come before the operation, each once, in order of creation.
std::vector<OpId> measures_before(const Graph& graph, OpId op);

// The positions in Graph::guards of those that can be checked when a step begins.
std::vector<std::size_t> guards_of_inputs(const Graph& graph);
// Those that are checked after `measure`, the last of the measures in `order` that they mention.
std::vector<std::size_t> guards_after(const Graph& graph, std::span<const OpId> order, OpId measure);

}  // namespace braid::ir
