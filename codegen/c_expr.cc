#include "codegen/c_expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "ir/error.h"

namespace braid::codegen {
namespace {

using ir::Expr;
using ir::ExprKind;

bool is_sum(Expr e) {
  if (e.kind() != ExprKind::polynomial) return e.is_constant() && e.constant() < 0;
  const std::vector<ir::Term> all = ir::terms(e);
  return all.size() > 1 || all[0].coefficient < 0;
}
bool is_product(Expr e) { return e.kind() == ExprKind::polynomial || is_sum(e); }

std::string factor(Expr atom, const CExprStyle& style) {
  std::string text = c_expr(atom, style);
  // Quotients and remainders bind as products do, but not associatively.
  const bool plain = atom.kind() == ExprKind::symbol || atom.kind() == ExprKind::min ||
                     atom.kind() == ExprKind::max || (atom.is_constant() && atom.constant() >= 0);
  return plain ? text : "(" + text + ")";
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
    // A literal of the smallest int64 does not exist in C; canonical polynomials that large are refused
    // before.
    const std::int64_t size = negative ? -term.coefficient : term.coefficient;
    std::string product;
    if (size != 1 || term.atoms.empty()) product = fmt::format("{}", size);
    for (Expr atom : term.atoms) product += (product.empty() ? "" : " * ") + factor(atom, style);
    out += product;
  }
  return out;
}

std::string quotient(Expr e, const CExprStyle& style, const char* op, const char* function) {
  const bool natural = ir::provably_non_negative(e.lhs(), style.extents);
  if (!natural)
    return fmt::format("{}{}({}, {})", style.helpers, function, c_expr(e.lhs(), style),
                       c_expr(e.rhs(), style));
  const std::string lhs = is_product(e.lhs()) ? "(" + c_expr(e.lhs(), style) + ")" : factor(e.lhs(), style);
  const std::string rhs = is_product(e.rhs()) ? "(" + c_expr(e.rhs(), style) + ")" : factor(e.rhs(), style);
  return fmt::format("{} {} {}", lhs, op, rhs);
}

constexpr std::int64_t kInt32Max = 2147483647;

// An upper bound of the magnitude of everything that is computed on the way; kUnbounded saturates.
std::int64_t magnitude(Expr e, ir::Extents extents) {
  switch (e.kind()) {
    case ExprKind::constant:
      return e.constant() == INT64_MIN ? ir::kUnbounded : std::min(std::abs(e.constant()), ir::kUnbounded);
    case ExprKind::symbol: {
      const ir::Bounds b = ir::bounds(e, extents);
      return std::max(std::abs(b.min), std::abs(b.max));
    }
    case ExprKind::polynomial: {
      std::int64_t sum = 0;
      for (const ir::Term& term : ir::terms(e)) {
        std::int64_t product = std::abs(term.coefficient);
        for (Expr atom : term.atoms) {
          if (__builtin_mul_overflow(product, std::max<std::int64_t>(magnitude(atom, extents), 1), &product))
            return ir::kUnbounded;
        }
        if (__builtin_add_overflow(sum, product, &sum) || sum > ir::kUnbounded) return ir::kUnbounded;
      }
      return sum;
    }
    default:
      return std::max(magnitude(e.lhs(), extents), magnitude(e.rhs(), extents));
  }
}

}  // namespace

std::string c_expr(Expr e, const CExprStyle& style) {
  switch (e.kind()) {
    case ExprKind::constant:
      return fmt::format("{}", e.constant());
    case ExprKind::symbol:
      return style.symbol(e);
    case ExprKind::polynomial:
      return polynomial(e, style);
    case ExprKind::floor_div:
      return quotient(e, style, "/", "floor_div");
    case ExprKind::mod:
      return quotient(e, style, "%", "floor_mod");
    case ExprKind::min:
      return fmt::format("{}minimum({}, {})", style.helpers, c_expr(e.lhs(), style), c_expr(e.rhs(), style));
    case ExprKind::max:
      return fmt::format("{}maximum({}, {})", style.helpers, c_expr(e.lhs(), style), c_expr(e.rhs(), style));
  }
  throw ir::InternalError("c_expr: unknown kind of expression");
}

std::string c_operand(Expr e, const CExprStyle& style) {
  const bool plain = e.kind() == ExprKind::symbol || e.kind() == ExprKind::min || e.kind() == ExprKind::max ||
                     (e.is_constant() && e.constant() >= 0);
  return plain ? c_expr(e, style) : "(" + c_expr(e, style) + ")";
}

bool fits_int32(Expr e, ir::Extents extents) { return magnitude(e, extents) <= kInt32Max; }

std::string c_identifier(std::string_view name) {
  std::string out;
  for (char c : name) {
    const bool good = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (good) {
      out += c;
    } else if (!out.empty() && out.back() != '_') {
      out += '_';
    }
  }
  while (!out.empty() && out.back() == '_') out.pop_back();
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) != 0) out.insert(0, "n");
  return out;
}

std::string c_string(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\' || c == '?') {
      out += '\\';
      out += c;
    } else if (u < 0x20 || u == 0x7f) {
      out += fmt::format("\\{:03o}", u);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string c_comment(std::string_view text) {
  std::string out;
  for (char c : text) {
    const auto u = static_cast<unsigned char>(c);
    out += u < 0x20 || u == 0x7f || c == '\\' ? '?' : c;
  }
  return out;
}

std::string CNames::unique(std::string_view wanted) {
  std::string name(wanted);
  for (int k = 2; !taken_.insert(name).second; ++k) name = fmt::format("{}_{}", wanted, k);
  return name;
}

}  // namespace braid::codegen
