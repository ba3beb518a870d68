// Proofs, simplification, queries and text of expressions.
#include <fmt/format.h>

#include <algorithm>

#include "ir/coordinate.h"
#include "ir/error.h"
#include "ir/expr_internal.h"
#include "ir/text_names.h"

namespace braid::ir {

using namespace detail;

namespace {

std::int64_t saturate(__int128 v) {
  if (v > kUnbounded) return kUnbounded;
  if (v < -kUnbounded) return -kUnbounded;
  return static_cast<std::int64_t>(v);
}

Bounds multiply(Bounds a, Bounds b) {
  const std::int64_t c[] = {
      saturate(static_cast<__int128>(a.min) * b.min), saturate(static_cast<__int128>(a.min) * b.max),
      saturate(static_cast<__int128>(a.max) * b.min), saturate(static_cast<__int128>(a.max) * b.max)};
  return {*std::min_element(c, c + 4), *std::max_element(c, c + 4)};
}

}  // namespace

Bounds bounds(Expr e, Extents extents) {
  switch (e.kind()) {
    case ExprKind::constant:
      return {e.constant(), e.constant()};
    case ExprKind::symbol: {
      const ExprNode& n = *e.node();
      if (n.symbol_kind == SymbolKind::dim) return n.bounds;
      if (n.symbol_kind == SymbolKind::index) {
        if (static_cast<std::size_t>(n.number) >= extents.size()) return {0, kUnbounded};
        const std::int64_t max = bounds(extents[static_cast<std::size_t>(n.number)]).max;
        return {0, max >= kUnbounded ? kUnbounded : std::max<std::int64_t>(max - 1, 0)};
      }
      return {-kUnbounded, kUnbounded};
    }
    case ExprKind::polynomial: {
      Bounds sum{0, 0};
      for (const Term& t : e.node()->terms) {
        Bounds p{t.coefficient, t.coefficient};
        for (const Expr& a : t.atoms) p = multiply(p, bounds(a, extents));
        sum = {saturate(static_cast<__int128>(sum.min) + p.min),
               saturate(static_cast<__int128>(sum.max) + p.max)};
      }
      return sum;
    }
    case ExprKind::floor_div: {
      const Bounds a = bounds(e.lhs(), extents), b = bounds(e.rhs(), extents);
      const std::int64_t lo = std::max<std::int64_t>(b.min, 1), hi = std::max<std::int64_t>(b.max, 1);
      return {std::min(div_floor(a.min, lo), div_floor(a.min, hi)),
              std::max(div_floor(a.max, lo), div_floor(a.max, hi))};
    }
    case ExprKind::mod: {
      const Bounds a = bounds(e.lhs(), extents), b = bounds(e.rhs(), extents);
      const std::int64_t top = std::max<std::int64_t>(b.max - 1, 0);
      return {0, a.min >= 0 ? std::min(top, a.max) : top};
    }
    case ExprKind::min: {
      const Bounds a = bounds(e.lhs(), extents), b = bounds(e.rhs(), extents);
      return {std::min(a.min, b.min), std::min(a.max, b.max)};
    }
    case ExprKind::max: {
      const Bounds a = bounds(e.lhs(), extents), b = bounds(e.rhs(), extents);
      return {std::max(a.min, b.min), std::max(a.max, b.max)};
    }
  }
  return {-kUnbounded, kUnbounded};
}

namespace {

// Returns a lower bound of `e` that has one quotient less, by a - c + 1 <= c floor(a / c) <= a. The constant
// c must divide the term's coefficient, and the term's other factors must be non-negative. Returns nullopt if
// there is no such quotient.
std::optional<Expr> without_quotient(Expr e, Extents extents) {
  for (const Term& t : terms(e)) {
    for (std::size_t k = 0; k < t.atoms.size(); ++k) {
      const Expr quotient = t.atoms[k];
      if (quotient.kind() != ExprKind::floor_div || !quotient.rhs().is_constant()) continue;
      const std::int64_t c = quotient.rhs().constant();
      if (c <= 0 || t.coefficient % c != 0) continue;
      Expr others = 1;
      bool bounded = true;
      for (std::size_t j = 0; j < t.atoms.size(); ++j) {
        if (j == k) continue;
        bounded = bounded && provably_non_negative(t.atoms[j], extents);
        others = others * t.atoms[j];
      }
      if (!bounded) continue;
      const Expr bound = t.coefficient > 0 ? quotient.lhs() - (c - 1) : quotient.lhs();
      return e - quotient * others * t.coefficient + bound * others * (t.coefficient / c);
    }
  }
  return std::nullopt;
}

bool prove_non_negative(Expr e, Extents extents) {
  if (bounds(e, extents).min >= 0) return true;
  // A term with a loop index or a coordinate of the rank whose factors are all non-negative takes its
  // smallest value at 0 (positive coefficient) or at extent - 1 (negative one). Afterwards only dimensions
  // are left. Indices of a loop with an empty extent do not run, so extent >= 1 may be assumed.
  for (const Term& t : terms(e)) {
    for (const Expr& a : t.atoms) {
      Expr last;
      if (is_coordinate(a)) {
        last = bounds(a).max;
      } else if (a.is_symbol(SymbolKind::index)) {
        const auto k = static_cast<std::size_t>(a.symbol_number());
        if (k >= extents.size()) return false;
        last = extents[k] - 1;
      } else {
        continue;
      }
      const std::optional<Expr> stride = stride_of(e, a);
      if (!stride) return false;
      Expr extreme;
      if (provably_non_negative(*stride, extents)) {
        extreme = 0;
      } else if (provably_non_negative(-*stride, extents)) {
        extreme = last;
      } else {
        return false;
      }
      return provably_non_negative(
          substitute(e, [&](Expr s) { return s == a ? std::optional(extreme) : std::nullopt; }), extents);
    }
  }
  if (const std::optional<Expr> less = without_quotient(e, extents))
    return provably_non_negative(*less, extents);
  // Only dimensions are left: shift each dimension d to its minimum, d = min + d', d' >= 0; if then no
  // coefficient is negative the expression is non-negative.
  for (const Term& t : terms(e)) {
    for (const Expr& a : t.atoms) {
      if (a.kind() != ExprKind::symbol) return false;
    }
  }
  const Expr moved = substitute(e, [](Expr s) -> std::optional<Expr> {
    if (!s.is_symbol(SymbolKind::dim)) return std::nullopt;
    return s + bounds(s).min;
  });
  for (const Term& t : terms(moved)) {
    if (t.coefficient < 0) return false;
    for (const Expr& a : t.atoms) {
      if (!a.is_symbol(SymbolKind::dim)) return false;
    }
  }
  return true;
}

}  // namespace

bool provably_non_negative(Expr e, Extents extents) {
  if (e.is_constant()) return e.constant() >= 0;
  if (!extents.empty()) return prove_non_negative(e, extents);
  return memoized('p', e, 0, [&]() -> Expr { return prove_non_negative(e, {}) ? 1 : 0; }).is_constant(1);
}

bool provably_less(Expr a, Expr b, Extents extents) { return provably_non_negative(b - a - 1, extents); }

bool provably_equal(Expr a, Expr b) { return a == b; }

namespace {

// Rebuilds an expression bottom-up; `leaf` maps symbols, `extents` feeds the range rules.
Expr rebuild(Expr e, const std::function<std::optional<Expr>(Expr)>& leaf, Extents extents) {
  switch (e.kind()) {
    case ExprKind::constant:
      return e;
    case ExprKind::symbol: {
      std::optional<Expr> by = leaf ? leaf(e) : std::nullopt;
      return by ? *by : e;
    }
    case ExprKind::polynomial: {
      Expr sum = 0;
      for (const Term& t : e.node()->terms) {
        Expr p = t.coefficient;
        for (const Expr& a : t.atoms) p = p * rebuild(a, leaf, extents);
        sum = sum + p;
      }
      return sum;
    }
    case ExprKind::floor_div:
      return floor_div_in(rebuild(e.lhs(), leaf, extents), rebuild(e.rhs(), leaf, extents), extents);
    case ExprKind::mod:
      return mod_in(rebuild(e.lhs(), leaf, extents), rebuild(e.rhs(), leaf, extents), extents);
    case ExprKind::min:
    case ExprKind::max:
      return extremum_in(e.kind(), rebuild(e.lhs(), leaf, extents), rebuild(e.rhs(), leaf, extents), extents);
  }
  return e;
}

}  // namespace

namespace {

// c*b*floordiv(e, b) + c*mod(e, b) = c*e, wherever such a pair of terms stands.
Expr join_quotients(Expr e) {
  for (bool changed = true; changed;) {
    changed = false;
    const std::vector<Term> all = terms(e);
    for (const Term& t : all) {
      for (std::size_t k = 0; k < t.atoms.size() && !changed; ++k) {
        const Expr atom = t.atoms[k];
        if (atom.kind() != ExprKind::mod) continue;
        Term rest = t;
        rest.atoms.erase(rest.atoms.begin() + static_cast<std::ptrdiff_t>(k));
        const Expr scale = from_term(rest);
        const Expr partner = scale * atom.rhs() * floor_div(atom.lhs(), atom.rhs());
        const std::vector<Term> wanted = terms(partner);
        const bool present = !wanted.empty() && std::all_of(wanted.begin(), wanted.end(), [&](const Term& w) {
          return std::any_of(all.begin(), all.end(), [&](const Term& x) {
            return x.coefficient == w.coefficient && x.atoms == w.atoms;
          });
        });
        if (!present) continue;
        e = e - partner - from_term(t) + scale * atom.lhs();
        changed = true;
      }
      if (changed) break;
    }
  }
  return e;
}

}  // namespace

Expr simplify(Expr e, Extents extents) { return join_quotients(rebuild(e, nullptr, extents)); }

Expr substitute(Expr e, const std::function<std::optional<Expr>(Expr)>& replace) {
  return rebuild(e, replace, {});
}

Expr substitute_indices(Expr e, std::span<const Expr> by) {
  return substitute(e, [&](Expr s) -> std::optional<Expr> {
    if (!s.is_symbol(SymbolKind::index)) return std::nullopt;
    const auto k = static_cast<std::size_t>(s.symbol_number());
    if (k >= by.size()) return std::nullopt;
    return by[k];
  });
}

namespace {

void collect_symbols(Expr e, std::vector<Expr>& found) {
  switch (e.kind()) {
    case ExprKind::constant:
      return;
    case ExprKind::symbol:
      found.push_back(e);
      return;
    case ExprKind::polynomial:
      for (const Term& t : e.node()->terms) {
        for (const Expr& a : t.atoms) collect_symbols(a, found);
      }
      return;
    default:
      collect_symbols(e.lhs(), found);
      collect_symbols(e.rhs(), found);
  }
}

}  // namespace

void for_each_symbol(Expr e, const std::function<void(Expr)>& visit) {
  std::vector<Expr> found;
  collect_symbols(e, found);
  std::sort(found.begin(), found.end(), atom_less);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  for (const Expr& s : found) visit(s);
}

bool contains(Expr e, Expr symbol) {
  bool found = false;
  for_each_symbol(e, [&](Expr s) { found |= s == symbol; });
  return found;
}

bool has_index(Expr e, std::size_t begin, std::size_t end) {
  bool found = false;
  for_each_symbol(e, [&](Expr s) {
    if (!s.is_symbol(SymbolKind::index)) return;
    const auto k = static_cast<std::size_t>(s.symbol_number());
    found |= k >= begin && k < end;
  });
  return found;
}

bool provably_multiple(Expr e, std::int64_t n) {
  const std::vector<Term> all = terms(e);
  return std::all_of(all.begin(), all.end(), [&](const Term& t) { return t.coefficient % n == 0; });
}

std::optional<Expr> stride_of(Expr e, Expr symbol) {
  Expr stride = 0;
  for (const Term& t : terms(e)) {
    int power = 0;
    Term rest{t.coefficient, {}};
    for (const Expr& a : t.atoms) {
      if (a == symbol) {
        ++power;
      } else {
        if (a.kind() != ExprKind::symbol && contains(a, symbol)) return std::nullopt;
        rest.atoms.push_back(a);
      }
    }
    if (power > 1) return std::nullopt;
    if (power == 1) stride = stride + from_term(rest);
  }
  return stride;
}

std::optional<Expr> divide_exactly(Expr e, Expr divisor) {
  if (divisor.is_constant(1)) return e;
  if (e == divisor) return Expr(1);
  const std::vector<Term> d = terms(divisor);
  if (d.empty()) return std::nullopt;
  // Long division by the leading term; exact only when nothing is left.
  Expr quotient = 0, rest = e;
  for (int step = 0; !rest.is_constant(0); ++step) {
    if (step > 64) return std::nullopt;
    const std::vector<Term> r = terms(rest);
    std::optional<Term> q = divide_term(r[0], d[0]);
    if (!q) return std::nullopt;
    const Expr part = from_term(*q);
    quotient = quotient + part;
    rest = rest - part * divisor;
  }
  return quotient;
}

std::int64_t evaluate(Expr e, const std::function<std::int64_t(Expr)>& value_of) {
  switch (e.kind()) {
    case ExprKind::constant:
      return e.constant();
    case ExprKind::symbol:
      return value_of(e);
    case ExprKind::polynomial: {
      std::int64_t sum = 0;
      for (const Term& t : e.node()->terms) {
        std::int64_t p = t.coefficient;
        for (const Expr& a : t.atoms) p = mul(p, evaluate(a, value_of));
        sum = add(sum, p);
      }
      return sum;
    }
    default: {
      const std::int64_t a = evaluate(e.lhs(), value_of), b = evaluate(e.rhs(), value_of);
      if (e.kind() == ExprKind::min) return std::min(a, b);
      if (e.kind() == ExprKind::max) return std::max(a, b);
      if (b <= 0) throw InternalError(fmt::format("division by {} when evaluating {}", b, to_string(e)));
      return e.kind() == ExprKind::floor_div ? div_floor(a, b) : mod_floor(a, b);
    }
  }
}

std::string to_string(Expr e) {
  switch (e.kind()) {
    case ExprKind::constant:
      return fmt::format("{}", e.constant());
    case ExprKind::symbol:
      switch (e.node()->symbol_kind) {
        case SymbolKind::dim:
          return is_coordinate(e) ? e.node()->name : dim_text(e.node()->name);
        case SymbolKind::index:
          return fmt::format("i{}", e.node()->number);
        case SymbolKind::value:
          return fmt::format("%{}", e.node()->number);
      }
      return "?";
    case ExprKind::polynomial: {
      std::string text;
      for (const Term& t : e.node()->terms) {
        std::int64_t c = t.coefficient;
        if (!text.empty()) {
          text += c < 0 ? " - " : " + ";
          c = c < 0 ? -c : c;
        }
        std::string factors;
        for (const Expr& a : t.atoms) factors += (factors.empty() ? "" : "*") + to_string(a);
        if (factors.empty()) {
          text += fmt::format("{}", c);
        } else if (c == 1) {
          text += factors;
        } else if (c == -1) {
          text += "-" + factors;
        } else {
          text += fmt::format("{}*{}", c, factors);
        }
      }
      return text;
    }
    default: {
      const char* name = e.kind() == ExprKind::floor_div ? "floordiv"
                         : e.kind() == ExprKind::mod     ? "mod"
                         : e.kind() == ExprKind::min     ? "min"
                                                         : "max";
      return fmt::format("{}({}, {})", name, to_string(e.lhs()), to_string(e.rhs()));
    }
  }
}

}  // namespace braid::ir
