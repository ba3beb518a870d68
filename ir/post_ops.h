// Names the steps of an epilogue that matrix libraries know (PostOp, ir/graph.h). They are found by structure
// and formula, never by sampling values.
#pragma once

#include <span>
#include <vector>

#include "ir/graph.h"

namespace braid::ir {

// Returns the steps with which the epilogue begins, in order; empty if its first step has no name. Each step
// extends as far as possible: roundings that follow belong to it.
std::vector<PostOp> find_post_ops(const Graph& graph, const Product& product);

// Whether the epilogue begins with these steps. A matrix of one row is a vector, too.
bool begins_with(const Graph& graph, const Product& product, std::span<const PostOp> steps);

// Whether the named steps are the whole epilogue.
bool named_to_the_end(const Product& product);

// The added operand of add_vector or add_matrix. The vector has the product's last size and stride 1; the
// matrix has the sizes and strides of the result.
BufferId operand_buffer(const Product& product, const PostOp& op);
// The offset of its first element, in elements from the buffer's first.
Expr operand_offset(const Graph& graph, const Product& product, const PostOp& op);

}  // namespace braid::ir
