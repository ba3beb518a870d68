// Sizes that inputs must have.
#pragma once

#include <string>
#include <vector>

#include "frontend/ops/common.h"

namespace braid::frontend {

// "[2, n, 8]"
std::string text_of_sizes(const std::vector<Expr>& sizes);

// Requires that input k has exactly these sizes: kShapeMismatch if it never has, a guard where this is not
// provable. `layout` names the dimensions in the message: "(batch, sequence, hidden size)".
void require_sizes(OpContext& c, int k, const std::vector<Expr>& expected, const char* layout);

// Input k as a scalar: it must have one element, whatever its rank. `what` names it in the message.
TensorBox one_element(OpContext& c, int k, const char* what);

// kShapeMismatch unless input k has one of these ranks.
void require_rank(OpContext& c, int k, std::initializer_list<int> ranks);

// A size that must be a number at compile time; `what` names it in the message. kUnsupportedForm otherwise.
std::int64_t known_size(OpContext& c, const Expr& size, const char* what);

}  // namespace braid::frontend
