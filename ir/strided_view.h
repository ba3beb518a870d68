// Strided views as index expressions, and the other way round.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ir/graph.h"

namespace braid::ir {

// i0*strides[0] + i1*strides[1] + ..., without the indices of dimensions with one element.
Expr strided_index(ExprPool& pool, std::span<const Expr> sizes, std::span<const Expr> strides);
// The element of its buffer that the view's element (i0, i1, ...) is.
Expr element_of(const Graph& graph, const TensorRef& view);

// Sorts dimensions by descending stride, where that is known for non-empty tensors: a stride is larger if it
// is provably so, or a multiple of the other by sizes, which may be 0. Others stay in the order given.
void sort_by_stride(std::span<std::size_t> dimensions, std::span<const Expr> strides);

// Returns the view whose element (i0, i1, ...) is element `at` of the buffer, an expression over these
// indices. Returns nullopt if there is none: strides must be equal on all ranks, and only the offset may
// depend on the rank.
std::optional<TensorRef> strided_view(const Graph& graph, BufferId buffer, Expr at, std::vector<Expr> sizes);

}  // namespace braid::ir
