// Names the steps of an epilogue that matrix libraries know (PostOp, ir/graph.h). They are found by structure
// and formula, never by sampling values.
#pragma once

#include <span>
#include <vector>

#include "ir/graph.h"

namespace braid::ir {

// The steps with which the epilogue begins, in order; empty where its first step has no name. Each reaches as
// far as it can: roundings that follow belong to it.
std::vector<PostOp> find_post_ops(const Graph& graph, const Gemm& gemm);

// Whether the epilogue begins with these steps. A matrix of one row is a vector, too.
bool begins_with(const Graph& graph, const Gemm& gemm, std::span<const PostOp> steps);

// Whether the named steps are the whole epilogue.
bool named_to_the_end(const Gemm& gemm);

// add_vector, add_matrix: what it adds. The vector has the product's last size and stride 1; the matrix has
// the sizes and strides of the result.
BufferId operand_buffer(const Gemm& gemm, const PostOp& op);
// Where its first element lies, in elements from the buffer's first.
Expr operand_offset(const Graph& graph, const Gemm& gemm, const PostOp& op);

}  // namespace braid::ir
