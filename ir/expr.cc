#include "ir/expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <numeric>
#include <unordered_map>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/expr_internal.h"
#include "ir/shared_pool.h"
#include "ir/text_names.h"

namespace braid::ir {

using namespace detail;

namespace {

// Sizes of real models have a few dozen terms. An expression that doubles with every node of a model is small
// in memory thanks to sharing, but could not be printed.
constexpr int kMaxWeight = 4096;

[[noreturn]] void overflow() {
  user_error(errors::kSizeOverflow, {}, "a size expression overflows 64-bit integers",
             "check the shapes and the bounds of the dimensions");
}

[[noreturn]] void too_long() {
  user_error(errors::kSizeTooLong, {}, fmt::format("a size expression has more than {} terms", kMaxWeight),
             "fix each of its dimensions to one value");
}

}  // namespace

std::int64_t detail::add(std::int64_t a, std::int64_t b) {
  std::int64_t r;
  if (__builtin_add_overflow(a, b, &r)) overflow();
  return r;
}

std::int64_t detail::mul(std::int64_t a, std::int64_t b) {
  std::int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) overflow();
  return r;
}

std::int64_t detail::div_floor(std::int64_t a, std::int64_t b) {
  std::int64_t q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}

std::int64_t detail::mod_floor(std::int64_t a, std::int64_t b) { return a - div_floor(a, b) * b; }

namespace {

std::size_t combine(std::size_t seed, std::size_t value) {
  return seed ^ (value + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2));
}

std::size_t hash_of(const Expr& e) {
  return e.node() ? std::hash<const void*>{}(e.node())
                  : std::hash<std::int64_t>{}(e.is_constant() ? e.constant() : 0);
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
    if (a.terms[i].coefficient != b.terms[i].coefficient || a.terms[i].atoms != b.terms[i].atoms)
      return false;
  }
  return true;
}

int weight_of(const Expr& e) { return e.node() ? e.node()->weight : 1; }

// Operands are within the limit, so sums of a few thousand of them fit.
int weight_of(const ExprNode& n) {
  int weight = 1;
  if (n.kind == ExprKind::polynomial) {
    for (const Term& t : n.terms) {
      ++weight;
      for (const Expr& a : t.atoms) weight += weight_of(a);
      if (weight > kMaxWeight) too_long();
    }
  } else if (n.kind != ExprKind::symbol) {
    weight += weight_of(n.lhs) + weight_of(n.rhs);
    if (weight > kMaxWeight) too_long();
  }
  return weight;
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
  // The same few sizes are added, multiplied and compared for every buffer of a graph.
  std::unordered_map<MemoKey, Expr, MemoHash> memo;
  std::unordered_multimap<std::size_t, const ExprNode*> index;
  // Nodes are immutable, so only the lookup tables are guarded, and only while several threads may make nodes
  // (SharedPool).
  std::atomic<int> sharers = 0;
  std::mutex mutex;

  std::unique_lock<std::mutex> guard() {
    return sharers.load(std::memory_order_relaxed) > 0 ? std::unique_lock(mutex)
                                                       : std::unique_lock<std::mutex>();
  }

  const ExprNode* intern(ExprNode node) {
    const std::size_t h = hash_of(node);
    const auto guarded = guard();
    auto [first, last] = index.equal_range(h);
    for (auto it = first; it != last; ++it) {
      if (same(*it->second, node)) return it->second;
    }
    node.weight = weight_of(node);
    nodes.push_back(std::move(node));
    index.emplace(h, &nodes.back());
    return &nodes.back();
  }
};

ExprPool::ExprPool() : impl_(std::make_unique<Impl>()) {}
ExprPool::~ExprPool() = default;

SharedPool::SharedPool(std::span<const Expr> expressions) {
  for (const Expr& e : expressions) {
    if (e.node() == nullptr) continue;
    pool_ = e.node()->pool;
    ++pool_->impl().sharers;
    return;
  }
}
SharedPool::~SharedPool() {
  if (pool_ != nullptr) --pool_->impl().sharers;
}

std::optional<Expr> ExprPool::find_dim(std::string_view name) const {
  const auto guarded = impl_->guard();
  for (const ExprNode& n : impl_->nodes) {
    if (n.kind == ExprKind::symbol && n.symbol_kind == SymbolKind::dim && n.number != kCoordinate &&
        n.name == name)
      return wrap(&n);
  }
  return std::nullopt;
}

Expr ExprPool::dim(std::string_view name, Bounds bounds) {
  if (std::optional<Expr> known = find_dim(name)) {
    internal_check(known->node()->bounds == bounds, "dimension '{}' declared twice with different bounds",
                   name);
    return *known;
  }
  ExprNode node{this, ExprKind::symbol};
  node.name = name;
  node.bounds = bounds;
  return wrap(impl_->intern(std::move(node)));
}

Expr detail::coordinate_symbol(ExprPool& pool, std::string text, int size) {
  ExprNode node{&pool, ExprKind::symbol, SymbolKind::dim, kCoordinate};
  node.name = std::move(text);
  node.bounds = {0, size - 1};
  const ExprNode* interned = pool.impl().intern(std::move(node));
  internal_check(interned->bounds.max == size - 1, "{} is along axes of different sizes", interned->name);
  return ExprPool::wrap(interned);
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

namespace {
// Apart, so that constant() is small enough to be inlined.
[[noreturn]] void not_constant(Expr e) {
  throw InternalError(fmt::format("expression {} is not a constant", to_string(e)));
}
}  // namespace

std::int64_t Expr::constant() const {
  if (node_ != nullptr) not_constant(*this);
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

bool detail::atom_less(const Expr& a, const Expr& b) { return compare(a, b) < 0; }

namespace {

// Higher degree first, then by atoms; the constant term comes last.
bool monomial_less(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  if (a.size() != b.size()) return a.size() > b.size();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (int c = compare(a[i], b[i])) return c < 0;
  }
  return false;
}

struct MonomialLess {
  bool operator()(const std::vector<Expr>& a, const std::vector<Expr>& b) const {
    return monomial_less(a, b);
  }
};
using TermMap = std::map<std::vector<Expr>, std::int64_t, MonomialLess>;

ExprPool* pool_of(Expr a, Expr b) {
  ExprPool* p = a.node() ? a.node()->pool : nullptr;
  ExprPool* q = b.node() ? b.node()->pool : nullptr;
  internal_check(!p || !q || p == q, "an operation on expressions of different pools");
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

}  // namespace

std::optional<Term> detail::divide_term(const Term& t, const Term& d) {
  if (t.coefficient % d.coefficient != 0) return std::nullopt;
  Term q{t.coefficient / d.coefficient, t.atoms};
  for (const Expr& a : d.atoms) {
    auto it = std::find(q.atoms.begin(), q.atoms.end(), a);
    if (it == q.atoms.end()) return std::nullopt;
    q.atoms.erase(it);
  }
  return q;
}

Expr detail::from_term(const Term& t) {
  Expr e = t.coefficient;
  for (const Expr& a : t.atoms) e = e * a;
  return e;
}

namespace {

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

}  // namespace

Expr detail::floor_div_in(Expr a, Expr b, Extents extents) {
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

Expr detail::mod_in(Expr a, Expr b, Extents extents) {
  if (b.is_constant()) {
    internal_check(b.constant() > 0, "modulo {} in a size expression", b.constant());
    if (b.constant() == 1) return 0;
    if (a.is_constant()) return mod_floor(a.constant(), b.constant());
  }
  const Split s = split_by(a, b);
  if (s.rest.is_constant(0)) return 0;
  if (in_range(s.rest, b, extents)) return s.rest;
  // mod(mod(x, p), q) = mod(x, q) where q divides p
  if (s.rest.kind() == ExprKind::mod && divide_exactly(s.rest.rhs(), b))
    return mod_in(s.rest.lhs(), b, extents);
  if (b.is_constant()) {
    std::int64_t g = b.constant();
    for (const Term& t : terms(s.rest)) g = std::gcd(g, t.coefficient);
    if (g > 1) return Expr(g) * mod_in(*divide_exactly(s.rest, g), b.constant() / g, extents);
  }
  return function(ExprKind::mod, s.rest, b);
}

Expr detail::extremum_in(ExprKind kind, Expr a, Expr b, Extents extents) {
  const bool is_min = kind == ExprKind::min;
  if (a == b) return a;
  if (a.is_constant() && b.is_constant()) {  // their difference may not fit
    return is_min ? std::min(a.constant(), b.constant()) : std::max(a.constant(), b.constant());
  }
  // From here on in one order: if each is provably at most the other, the choice must not depend on the
  // caller.
  if (compare(a, b) > 0) std::swap(a, b);
  if (provably_non_negative(b - a, extents)) return is_min ? a : b;
  if (provably_non_negative(a - b, extents)) return is_min ? b : a;
  // min(a, max(a, c)) = a, and the other way round.
  const auto absorbed = [&](Expr x, Expr by) {
    if (by.kind() != (is_min ? ExprKind::max : ExprKind::min)) return false;
    const auto within = [&](Expr part) {
      return provably_non_negative(is_min ? part - x : x - part, extents);
    };
    return within(by.lhs()) || within(by.rhs());
  };
  if (absorbed(a, b)) return a;
  if (absorbed(b, a)) return b;
  return function(kind, a, b);
}

std::vector<Term> terms(Expr e) {
  if (e.is_constant()) return e.constant() == 0 ? std::vector<Term>{} : std::vector<Term>{{e.constant(), {}}};
  if (e.kind() == ExprKind::polynomial) return e.node()->terms;
  return {{1, {e}}};
}

std::optional<Expr> detail::recall(char operation, Expr a, Expr b) {
  ExprPool::Impl& pool = pool_of(a, b)->impl();
  const auto guarded = pool.guard();
  const auto& memo = pool.memo;
  const auto it = memo.find({operation, a, b});
  return it == memo.end() ? std::nullopt : std::optional<Expr>(it->second);
}

void detail::remember(char operation, Expr a, Expr b, Expr result) {
  ExprPool::Impl& pool = pool_of(a, b)->impl();
  const auto guarded = pool.guard();
  pool.memo.emplace(MemoKey{operation, a, b}, result);
}

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
      if (map.size() > kMaxWeight) too_long();
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

}  // namespace braid::ir
