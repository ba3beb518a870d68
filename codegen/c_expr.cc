#include "codegen/c_expr.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "ir/error.h"

namespace braid::codegen {
namespace {

using ir::Expr;
using ir::ExprKind;

bool is_quotient(Expr e) { return e.kind() == ExprKind::floor_div || e.kind() == ExprKind::mod; }

// Whether the text needs no parentheses as an operand.
bool is_plain(Expr e, const CExprStyle& style) {
  return e.kind() == ExprKind::symbol || e.kind() == ExprKind::min || e.kind() == ExprKind::max ||
         (e.is_constant() && e.constant() >= 0) || (is_quotient(e) && style.quotients_bracketed);
}

std::optional<std::string> name_of(Expr e, const CExprStyle& style) {
  return style.named ? style.named(e) : std::nullopt;
}

std::string polynomial(Expr e, const CExprStyle& style) {
  std::string out;
  for (const ir::Term& term : ir::terms(e)) {
    const bool negative = term.coefficient < 0;
    if (out.empty()) {
      out = negative ? "-" : "";
    } else {
      out += negative ? " - " : " + ";
    }
    // Also works for the smallest int64, whose magnitude is no int64.
    const auto bits = static_cast<std::uint64_t>(term.coefficient);
    std::vector<std::string> factors;
    // Quotients and remainders have the precedence of products but are not associative, so operands are
    // parenthesised.
    for (Expr atom : term.atoms) factors.push_back(c_operand(atom, style));
    if (const std::uint64_t size = negative ? 0 - bits : bits; size != 1 || factors.empty())
      factors.insert(style.coefficient_last ? factors.end() : factors.begin(), fmt::format("{}", size));
    out += fmt::format("{}", fmt::join(factors, " * "));
  }
  return out;
}

// Left before right, because `symbol` may number symbols in the order in which it sees them.
std::string call(Expr e, const CExprStyle& style, const std::string& function) {
  const std::string lhs = c_expr(e.lhs(), style), rhs = c_expr(e.rhs(), style);
  return fmt::format("{}({}, {})", function, lhs, rhs);
}

std::string quotient(Expr e, const CExprStyle& style, const char* op, const std::string& function) {
  if (!ir::provably_non_negative(e.lhs(), style.extents)) return call(e, style, function);
  const std::string lhs = c_operand(e.lhs(), style), rhs = c_operand(e.rhs(), style);
  const std::string text = fmt::format("{} {} {}", lhs, op, rhs);
  return style.quotients_bracketed ? "(" + text + ")" : text;
}

constexpr std::int64_t kInt32Max = 2147483647;

// An upper bound of the magnitude of the value.
std::int64_t largest(Expr e, ir::Extents extents) {
  const ir::Bounds b = ir::bounds(e, extents);
  return std::max(std::abs(b.min), std::abs(b.max));
}

// Returns an upper bound of the magnitudes of all intermediate results; kUnbounded saturates.
std::int64_t magnitude(Expr e, ir::Extents extents) {
  switch (e.kind()) {
    case ExprKind::constant:
      return e.constant() == INT64_MIN ? ir::kUnbounded : std::min(std::abs(e.constant()), ir::kUnbounded);
    case ExprKind::symbol:
      return largest(e, extents);
    case ExprKind::polynomial: {
      std::int64_t sum = 0, within = 0;
      for (const ir::Term& term : ir::terms(e)) {
        std::int64_t product = std::abs(term.coefficient);
        for (Expr atom : term.atoms) {
          within = std::max(within, magnitude(atom, extents));
          // A quotient is smaller than its dividend.
          if (__builtin_mul_overflow(product, std::max<std::int64_t>(largest(atom, extents), 1), &product))
            return ir::kUnbounded;
        }
        if (__builtin_add_overflow(sum, product, &sum) || sum > ir::kUnbounded) return ir::kUnbounded;
      }
      return std::max(sum, within);
    }
    default:
      return std::max(magnitude(e.lhs(), extents), magnitude(e.rhs(), extents));
  }
}

}  // namespace

std::string c_expr(Expr e, const CExprStyle& style) {
  if (const std::optional<std::string> name = name_of(e, style)) return *name;
  switch (e.kind()) {
    case ExprKind::constant:
      // -9223372036854775808 is not a literal in C but the negative of one that is too large.
      return e.constant() == INT64_MIN ? "INT64_MIN" : fmt::format("{}", e.constant());
    case ExprKind::symbol:
      return style.symbol(e);
    case ExprKind::polynomial:
      return polynomial(e, style);
    case ExprKind::floor_div:
      return quotient(e, style, "/", style.functions.floor_div);
    case ExprKind::mod:
      return quotient(e, style, "%", style.functions.floor_mod);
    case ExprKind::min:
      return call(e, style, style.functions.minimum);
    case ExprKind::max:
      return call(e, style, style.functions.maximum);
  }
  throw ir::InternalError("c_expr: unknown kind of expression");
}

std::string c_operand(Expr e, const CExprStyle& style) {
  if (const std::optional<std::string> name = name_of(e, style)) return *name;
  return is_plain(e, style) ? c_expr(e, style) : "(" + c_expr(e, style) + ")";
}

std::string ValueIndex::as_int32(const std::string& text) const {
  const std::string value = fmt::format("static_cast<int32_t>({})", text);
  return shift == 0 ? value : fmt::format("{} + {}", value, shift);
}

std::optional<ValueIndex> value_index(Expr e) {
  std::optional<Expr> value;
  for_each_symbol(e, [&](Expr s) {
    if (s.is_symbol(ir::SymbolKind::value)) value = s;
  });
  if (!value || !(e - *value).is_constant()) return std::nullopt;
  return ValueIndex{value->symbol_number(), (e - *value).constant()};
}

bool fits_int32(Expr e, ir::Extents extents) { return magnitude(e, extents) <= kInt32Max; }

}  // namespace braid::codegen
