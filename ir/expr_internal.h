// Shared by the two halves of expressions: nodes and arithmetic (expr.cc), proofs and queries
// (expr_analysis.cc). Private to them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/expr.h"

namespace braid::ir {

struct ExprNode {
  ExprPool* pool;
  ExprKind kind;
  // symbol
  SymbolKind symbol_kind = SymbolKind::dim;
  int number = 0;
  std::string name;
  Bounds bounds;
  // polynomial: sum of terms, canonical order, no zero coefficients
  std::vector<Term> terms;
  // floor_div, mod, min, max
  Expr lhs, rhs;
  // The number of nodes of the expression as a tree, which bounds printing and proving. Set by the pool.
  int weight = 1;
};

namespace detail {

// ExprNode::number of a coordinate; that of a dimension is 0.
inline constexpr int kCoordinate = 1;
// `text` is how it is printed; it is in [0, size - 1].
Expr coordinate_symbol(ExprPool& pool, std::string text, int size);

// Checked: overflow of int64 is a user error.
std::int64_t add(std::int64_t a, std::int64_t b);
std::int64_t mul(std::int64_t a, std::int64_t b);
// Round towards minus infinity; b > 0.
std::int64_t div_floor(std::int64_t a, std::int64_t b);
std::int64_t mod_floor(std::int64_t a, std::int64_t b);

bool atom_less(const Expr& a, const Expr& b);
Expr from_term(const Term& t);
// t / d of monomials, if exact.
std::optional<Term> divide_term(const Term& t, const Term& d);

// These use the ranges of the loop indices.
Expr floor_div_in(Expr a, Expr b, Extents extents);
Expr mod_in(Expr a, Expr b, Extents extents);
Expr extremum_in(ExprKind kind, Expr a, Expr b, Extents extents);

// The pool's table of results by operation and operands, at least one of which is not a constant.
std::optional<Expr> recall(char operation, Expr a, Expr b);
void remember(char operation, Expr a, Expr b, Expr result);

// The remembered result, or compute().
template <class Compute>
Expr memoized(char operation, Expr a, Expr b, const Compute& compute) {
  if (const std::optional<Expr> known = recall(operation, a, b)) return *known;
  const Expr result = compute();
  remember(operation, a, b, result);
  return result;
}

}  // namespace detail
}  // namespace braid::ir
