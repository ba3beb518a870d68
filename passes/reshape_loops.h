// Rewrites a loop over another factorisation of its iteration space.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace braid::passes {

// Per dimension, a list of factors, outermost first; an empty list drops a dimension of size 1.
using Factors = std::vector<std::vector<ir::Expr>>;

// Brings two factorisations of prefixes of one space to the finest common one: [B*S, 768] and [B, S, 768]
// give {[B, S], [768]} and {[B], [S], [768]}. Goes as far as sizes divide each other; dimensions of size 1
// are dropped.
std::pair<Factors, Factors> common_factors(std::span<const ir::Expr> a, std::span<const ir::Expr> b);

// Splits the first dimensions of a loop; the others stay. Reduced dimensions are not touched.
ir::Loops split_dims(const ir::Loops& loops, const Factors& factors, ir::ExprPool& pool);

// Whether indices k and k+1 of the loop can become one of size n_k * n_(k+1): every index expression advances
// by n_(k+1) steps of i_(k+1) per step of i_k.
bool can_merge_dims(const ir::Loops& loops, std::size_t k);
// Requires can_merge_dims.
ir::Loops merge_dims(const ir::Loops& loops, std::size_t k, ir::ExprPool& pool);

// Returns every index of `sizes` as an expression over the indices of `over`, if both count the same elements
// in the same order and the factors match.
std::optional<std::vector<ir::Expr>> reindex(std::span<const ir::Expr> sizes, std::span<const ir::Expr> over,
                                             ir::ExprPool& pool);

}  // namespace braid::passes
