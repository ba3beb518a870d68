#include "ir/expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <unordered_map>

#include "ir/error.h"
#include "ir/text_names.h"

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
};

namespace {

constexpr int kSizeOverflow = 301;

[[noreturn]] void overflow() {
  user_error(kSizeOverflow, {}, "a size expression leaves the range of 64-bit integers",
             "check the shapes and the bounds of the dimensions");
}

std::int64_t add(std::int64_t a, std::int64_t b) {
  std::int64_t r;
  if (__builtin_add_overflow(a, b, &r)) overflow();
  return r;
}

std::int64_t mul(std::int64_t a, std::int64_t b) {
  std::int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) overflow();
  return r;
}

std::int64_t div_floor(std::int64_t a, std::int64_t b) {
  std::int64_t q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}

std::int64_t mod_floor(std::int64_t a, std::int64_t b) { return a - div_floor(a, b) * b; }

std::size_t combine(std::size_t seed, std::size_t value) {
  return seed ^ (value + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2));
}

std::size_t hash_of(const Expr& e) {
  return e.node() ? std::hash<const void*>{}(e.node()) : std::hash<std::int64_t>{}(e.is_constant() ? e.constant() : 0);
}

std::size_t hash_of(const ExprNode& n) {
  std::size_t h = combine(static_cast<std::size_t>(n.kind), static_cast<std::size_t>(n.symbol_kind));
  h = combine(h, static_cast<std::size_t>(n.number));
  h = combine(h, std::hash<std::string>{}(n.name));
  for (const Term& t : n.terms) {
    h = combine(h, static_cast<std::size_t>(t.coefficient));
    for (const Expr& a : t.atoms) h = combine(h, hash_of(a));
  }
  h = combine(h, hash_of(n.lhs));
  return combine(h, hash_of(n.rhs));
}

bool same(const ExprNode& a, const ExprNode& b) {
  if (a.kind != b.kind || a.symbol_kind != b.symbol_kind || a.number != b.number || a.name != b.name ||
      !(a.lhs == b.lhs) || !(a.rhs == b.rhs) || a.terms.size() != b.terms.size()) {
    return false;
  }
  for (std::size_t i = 0; i < a.terms.size(); ++i) {
    if (a.terms[i].coefficient != b.terms[i].coefficient || a.terms[i].atoms != b.terms[i].atoms) return false;
  }
  return true;
}

}  // namespace

struct MemoKey {
  char operation;
  Expr a, b;
  friend bool operator==(const MemoKey&, const MemoKey&) = default;
};
struct MemoHash {
  std::size_t operator()(const MemoKey& k) const {
    return combine(combine(static_cast<std::size_t>(k.operation), hash_of(k.a)), hash_of(k.b));
  }
};

struct ExprPool::Impl {
  std::deque<ExprNode> nodes;
  // The same few sizes are added, multiplied and compared again for every buffer of a graph.
  std::unordered_map<MemoKey, Expr, MemoHash> memo;
  std::unordered_multimap<std::size_t, const ExprNode*> index;

  const ExprNode* intern(ExprNode node) {
    const std::size_t h = hash_of(node);
    auto [first, last] = index.equal_range(h);
    for (auto it = first; it != last; ++it) {
      if (same(*it->second, node)) return it->second;
    }
    nodes.push_back(std::move(node));
    index.emplace(h, &nodes.back());
    return &nodes.back();
  }
};

ExprPool::ExprPool() : impl_(std::make_unique<Impl>()) {}
ExprPool::~ExprPool() = default;

std::optional<Expr> ExprPool::find_dim(std::string_view name) const {
  for (const ExprNode& n : impl_->nodes) {
    if (n.kind == ExprKind::symbol && n.symbol_kind == SymbolKind::dim && n.name == name) return wrap(&n);
  }
  return std::nullopt;
}

Expr ExprPool::dim(std::string_view name, Bounds bounds) {
  if (std::optional<Expr> known = find_dim(name)) {
    internal_check(known->node()->bounds == bounds, "dimension '{}' declared twice with different bounds", name);
    return *known;
  }
  ExprNode node{this, ExprKind::symbol};
  node.name = name;
  node.bounds = bounds;
  return wrap(impl_->intern(std::move(node)));
}

Expr ExprPool::index(int number) {
  ExprNode node{this, ExprKind::symbol, SymbolKind::index, number};
  return wrap(impl_->intern(std::move(node)));
}

Expr ExprPool::value(int number) {
  ExprNode node{this, ExprKind::symbol, SymbolKind::value, number};
  return wrap(impl_->intern(std::move(node)));
}

ExprKind Expr::kind() const { return node_ ? node_->kind : ExprKind::constant; }

std::int64_t Expr::constant() const {
  if (node_ != nullptr) throw InternalError(fmt::format("expression {} is not a constant", to_string(*this)));
  return value_;
}

bool Expr::is_symbol(SymbolKind kind) const {
  return node_ && node_->kind == ExprKind::symbol && node_->symbol_kind == kind;
}

const std::string& Expr::dim_name() const {
  internal_check(is_symbol(SymbolKind::dim), "not a dimension");
  return node_->name;
}

int Expr::symbol_number() const {
  internal_check(node_ && node_->kind == ExprKind::symbol && node_->symbol_kind != SymbolKind::dim,
                 "not an index or value symbol");
  return node_->number;
}

Expr Expr::lhs() const { return node_->lhs; }
Expr Expr::rhs() const { return node_->rhs; }

int compare(Expr a, Expr b) {
  if (a == b) return 0;
  if (a.kind() != b.kind()) return a.kind() < b.kind() ? -1 : 1;
  switch (a.kind()) {
    case ExprKind::constant:
      return a.constant() < b.constant() ? -1 : 1;
    case ExprKind::symbol: {
      const ExprNode &x = *a.node(), &y = *b.node();
      if (x.symbol_kind != y.symbol_kind) return x.symbol_kind < y.symbol_kind ? -1 : 1;
      if (x.number != y.number) return x.number < y.number ? -1 : 1;
      return x.name.compare(y.name) < 0 ? -1 : 1;
    }
    case ExprKind::polynomial: {
      const std::vector<Term>&x = a.node()->terms, &y = b.node()->terms;
      for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
        const auto &p = x[i].atoms, &q = y[i].atoms;
        if (p.size() != q.size()) return p.size() > q.size() ? -1 : 1;
        for (std::size_t k = 0; k < p.size(); ++k) {
          if (int c = compare(p[k], q[k])) return c;
        }
        if (x[i].coefficient != y[i].coefficient) return x[i].coefficient < y[i].coefficient ? -1 : 1;
      }
      return x.size() < y.size() ? -1 : 1;
    }
    default:
      if (int c = compare(a.lhs(), b.lhs())) return c;
      return compare(a.rhs(), b.rhs());
  }
}

namespace {

bool atom_less(const Expr& a, const Expr& b) { return compare(a, b) < 0; }

// Higher degree first, then by atoms; the constant term comes last.
bool monomial_less(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  if (a.size() != b.size()) return a.size() > b.size();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (int c = compare(a[i], b[i])) return c < 0;
  }
  return false;
}

struct MonomialLess {
  bool operator()(const std::vector<Expr>& a, const std::vector<Expr>& b) const { return monomial_less(a, b); }
};
using TermMap = std::map<std::vector<Expr>, std::int64_t, MonomialLess>;

ExprPool* pool_of(Expr a, Expr b) {
  ExprPool* p = a.node() ? a.node()->pool : nullptr;
  ExprPool* q = b.node() ? b.node()->pool : nullptr;
  internal_check(!p || !q || p == q, "expressions of different pools mixed");
  return p ? p : q;
}

Expr from_terms(ExprPool* pool, const TermMap& map) {
  ExprNode node{pool, ExprKind::polynomial};
  for (const auto& [atoms, coefficient] : map) {
    if (coefficient != 0) node.terms.push_back({coefficient, atoms});
  }
  if (node.terms.empty()) return 0;
  if (node.terms.size() == 1) {
    const Term& t = node.terms[0];
    if (t.atoms.empty()) return t.coefficient;
    if (t.coefficient == 1 && t.atoms.size() == 1) return t.atoms[0];
  }
  return ExprPool::wrap(pool->impl().intern(std::move(node)));
}

TermMap term_map(Expr e) {
  TermMap map;
  for (const Term& t : terms(e)) map[t.atoms] = t.coefficient;
  return map;
}

Expr function(ExprKind kind, Expr a, Expr b) {
  ExprPool* pool = pool_of(a, b);
  ExprNode node{pool, kind};
  node.lhs = a;
  node.rhs = b;
  return ExprPool::wrap(pool->impl().intern(std::move(node)));
}

// term / divisor for monomials, if exact.
std::optional<Term> divide_term(const Term& t, const Term& d) {
  if (t.coefficient % d.coefficient != 0) return std::nullopt;
  Term q{t.coefficient / d.coefficient, t.atoms};
  for (const Expr& a : d.atoms) {
    auto it = std::find(q.atoms.begin(), q.atoms.end(), a);
    if (it == q.atoms.end()) return std::nullopt;
    q.atoms.erase(it);
  }
  return q;
}

Expr from_term(const Term& t) {
  Expr e = t.coefficient;
  for (const Expr& a : t.atoms) e = e * a;
  return e;
}

struct Split {
  Expr quotient = 0;  // what the divisor divides exactly, divided
  Expr rest = 0;
};

Split split_by(Expr e, Expr divisor) {
  Split s;
  const std::vector<Term> d = terms(divisor);
  if (d.size() != 1) {
    // A divisor of several terms: only the polynomial multiple that divide_exactly can see.
    if (std::optional<Expr> q = divide_exactly(e, divisor)) return {*q, 0};
    return {0, e};
  }
  for (const Term& t : terms(e)) {
    if (std::optional<Term> q = divide_term(t, d[0])) {
      s.quotient = s.quotient + from_term(*q);
    } else if (d[0].atoms.empty() && t.atoms.empty()) {
      s.quotient = s.quotient + div_floor(t.coefficient, d[0].coefficient);
      s.rest = s.rest + mod_floor(t.coefficient, d[0].coefficient);
    } else {
      s.rest = s.rest + from_term(t);
    }
  }
  return s;
}

bool in_range(Expr e, Expr divisor, Extents extents) {
  return provably_non_negative(e, extents) && provably_less(e, divisor, extents);
}

Expr floor_div_in(Expr a, Expr b, Extents extents) {
  if (b.is_constant()) {
    internal_check(b.constant() > 0, "division by {} in a size expression", b.constant());
    if (b.constant() == 1) return a;
    if (a.is_constant()) return div_floor(a.constant(), b.constant());
  }
  if (a.is_constant(0)) return 0;
  const Split s = split_by(a, b);
  if (s.rest.is_constant(0)) return s.quotient;
  if (in_range(s.rest, b, extents)) return s.quotient;
  // floordiv(floordiv(x, p), q) = floordiv(x, p*q)
  if (s.rest.kind() == ExprKind::floor_div) {
    return s.quotient + floor_div_in(s.rest.lhs(), s.rest.rhs() * b, extents);
  }
  // Cancel a common constant factor: floordiv(4*x, 8) = floordiv(x, 2).
  if (b.is_constant()) {
    std::int64_t g = b.constant();
    for (const Term& t : terms(s.rest)) g = std::gcd(g, t.coefficient);
    if (g > 1) return s.quotient + floor_div_in(*divide_exactly(s.rest, g), b.constant() / g, extents);
  }
  return s.quotient + function(ExprKind::floor_div, s.rest, b);
}

Expr mod_in(Expr a, Expr b, Extents extents) {
  if (b.is_constant()) {
    internal_check(b.constant() > 0, "modulo {} in a size expression", b.constant());
    if (b.constant() == 1) return 0;
    if (a.is_constant()) return mod_floor(a.constant(), b.constant());
  }
  const Split s = split_by(a, b);
  if (s.rest.is_constant(0)) return 0;
  if (in_range(s.rest, b, extents)) return s.rest;
  // mod(mod(x, p), q) = mod(x, q) where q divides p
  if (s.rest.kind() == ExprKind::mod && divide_exactly(s.rest.rhs(), b)) return mod_in(s.rest.lhs(), b, extents);
  if (b.is_constant()) {
    std::int64_t g = b.constant();
    for (const Term& t : terms(s.rest)) g = std::gcd(g, t.coefficient);
    if (g > 1) return Expr(g) * mod_in(*divide_exactly(s.rest, g), b.constant() / g, extents);
  }
  return function(ExprKind::mod, s.rest, b);
}

Expr extremum_in(ExprKind kind, Expr a, Expr b, Extents extents) {
  const bool is_min = kind == ExprKind::min;
  if (a == b) return a;
  // In one order from here on: where each is provably at most the other, the choice must not depend on who asks.
  if (compare(a, b) > 0) std::swap(a, b);
  if (provably_non_negative(b - a, extents)) return is_min ? a : b;
  if (provably_non_negative(a - b, extents)) return is_min ? b : a;
  return function(kind, a, b);
}

}  // namespace

std::vector<Term> terms(Expr e) {
  if (e.is_constant()) return e.constant() == 0 ? std::vector<Term>{} : std::vector<Term>{{e.constant(), {}}};
  if (e.kind() == ExprKind::polynomial) return e.node()->terms;
  return {{1, {e}}};
}

namespace {

template <class Compute>
Expr memoized(char operation, Expr a, Expr b, const Compute& compute) {
  auto& memo = pool_of(a, b)->impl().memo;
  const MemoKey key{operation, a, b};
  if (const auto it = memo.find(key); it != memo.end()) return it->second;
  const Expr result = compute();  // may grow the table
  memo.emplace(key, result);
  return result;
}

}  // namespace

Expr operator+(Expr a, Expr b) {
  if (a.is_constant() && b.is_constant()) return add(a.constant(), b.constant());
  if (a.is_constant(0)) return b;
  if (b.is_constant(0)) return a;
  return memoized('+', a, b, [&] {
    TermMap map = term_map(a);
    for (const Term& t : terms(b)) {
      std::int64_t& c = map[t.atoms];
      c = add(c, t.coefficient);
    }
    return from_terms(pool_of(a, b), map);
  });
}

Expr operator-(Expr a) { return a * Expr(-1); }
Expr operator-(Expr a, Expr b) { return a + -b; }

Expr operator*(Expr a, Expr b) {
  if (a.is_constant() && b.is_constant()) return mul(a.constant(), b.constant());
  if (a.is_constant(0) || b.is_constant(0)) return 0;
  if (a.is_constant(1)) return b;
  if (b.is_constant(1)) return a;
  return memoized('*', a, b, [&] {
    TermMap map;
    for (const Term& s : terms(a)) {
      for (const Term& t : terms(b)) {
        std::vector<Expr> atoms = s.atoms;
        atoms.insert(atoms.end(), t.atoms.begin(), t.atoms.end());
        std::sort(atoms.begin(), atoms.end(), atom_less);
        std::int64_t& c = map[std::move(atoms)];
        c = add(c, mul(s.coefficient, t.coefficient));
      }
    }
    return from_terms(pool_of(a, b), map);
  });
}

Expr floor_div(Expr a, Expr b) { return floor_div_in(a, b, {}); }
Expr ceil_div(Expr a, Expr b) { return floor_div(a + b - 1, b); }
Expr mod(Expr a, Expr b) { return mod_in(a, b, {}); }
Expr min(Expr a, Expr b) { return extremum_in(ExprKind::min, a, b, {}); }
Expr max(Expr a, Expr b) { return extremum_in(ExprKind::max, a, b, {}); }

Expr product(std::span<const Expr> factors) {
  Expr e = 1;
  for (const Expr& f : factors) e = e * f;
  return e;
}

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
        sum = {saturate(static_cast<__int128>(sum.min) + p.min), saturate(static_cast<__int128>(sum.max) + p.max)};
      }
      return sum;
    }
    case ExprKind::floor_div: {
      const Bounds a = bounds(e.lhs(), extents), b = bounds(e.rhs(), extents);
      const std::int64_t lo = std::max<std::int64_t>(b.min, 1), hi = std::max<std::int64_t>(b.max, 1);
      return {std::min(div_floor(a.min, lo), div_floor(a.min, hi)), std::max(div_floor(a.max, lo), div_floor(a.max, hi))};
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

bool prove_non_negative(Expr e, Extents extents) {
  if (bounds(e, extents).min >= 0) return true;
  // A term with a loop index whose factors are all non-negative takes its smallest value at 0 (positive coefficient)
  // or at extent - 1 (negative one); what is left holds only dimensions. Indices of a loop with an empty extent do
  // not run, so extent >= 1 may be assumed.
  for (const Term& t : terms(e)) {
    for (const Expr& a : t.atoms) {
      if (!a.is_symbol(SymbolKind::index)) continue;
      const auto k = static_cast<std::size_t>(a.symbol_number());
      if (k >= extents.size()) return false;
      const std::optional<Expr> stride = stride_of(e, a);
      if (!stride) return false;
      Expr extreme;
      if (provably_non_negative(*stride, extents)) {
        extreme = 0;
      } else if (provably_non_negative(-*stride, extents)) {
        extreme = extents[k] - 1;
      } else {
        return false;
      }
      return provably_non_negative(substitute(e, [&](Expr s) { return s == a ? std::optional(extreme) : std::nullopt; }),
                                   extents);
    }
  }
  // Only dimensions are left: shift each dimension d to its minimum, d = min + d', d' >= 0; if then no coefficient is
  // negative the expression is non-negative.
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
          return std::any_of(all.begin(), all.end(),
                             [&](const Term& x) { return x.coefficient == w.coefficient && x.atoms == w.atoms; });
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

Expr substitute(Expr e, const std::function<std::optional<Expr>(Expr)>& replace) { return rebuild(e, replace, {}); }

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
          return dim_text(e.node()->name);
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
