// Size and index expressions: canonical, hash-consed integers over named dimensions and loop indices.
//
// Every expression is a polynomial with integer coefficients over atoms; an atom is a symbol or one of
// floordiv, mod, min, max of two expressions. Equal expressions of one pool are the same node, so == is a
// pointer comparison. A constant needs no pool and mixes with expressions of any pool.
//
// Division and modulo round towards minus infinity; divisors are positive. All arithmetic is checked:
// overflow of int64 is a UserError, never a wrapped number.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace braid::ir {

struct ExprNode;
class ExprPool;

enum class ExprKind : std::uint8_t { constant, symbol, polynomial, floor_div, mod, min, max };

// dim: a dimension, or a coordinate of the rank (ir/coordinate.h): named, with bounds, fixed during a step.
// index: i0, i1, ... of the enclosing loop. value: the SSA value %k of the enclosing loop body, used as an
// index (indirect addressing).
enum class SymbolKind : std::uint8_t { dim, index, value };

class Expr {
 public:
  Expr() = default;
  template <std::integral T>
  Expr(T value) : value_(static_cast<std::int64_t>(value)) {}  // implicit on purpose: sizes read like numbers

  ExprKind kind() const;
  bool is_constant() const { return node_ == nullptr; }
  bool is_constant(std::int64_t value) const { return node_ == nullptr && value_ == value; }
  std::int64_t constant() const;  // requires is_constant()

  bool is_symbol(SymbolKind kind) const;
  // Requires a symbol. Dimensions have a name; indices and values have a number.
  const std::string& dim_name() const;
  int symbol_number() const;

  // Operands of floor_div, mod, min, max.
  Expr lhs() const;
  Expr rhs() const;

  friend bool operator==(const Expr& a, const Expr& b) { return a.node_ == b.node_ && a.value_ == b.value_; }

  const ExprNode* node() const { return node_; }

 private:
  friend class ExprPool;
  explicit Expr(const ExprNode* node) : node_(node) {}

  const ExprNode* node_ = nullptr;  // null: the constant value_
  std::int64_t value_ = 0;
};

Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator-(Expr a);
Expr floor_div(Expr a, Expr b);
Expr ceil_div(Expr a, Expr b);
Expr mod(Expr a, Expr b);
Expr min(Expr a, Expr b);
Expr max(Expr a, Expr b);
Expr product(std::span<const Expr> factors);

// One term of a polynomial: coefficient * product(atoms). The constant term has no atoms.
struct Term {
  std::int64_t coefficient;
  std::vector<Expr> atoms;
};
std::vector<Term> terms(Expr e);  // in canonical order

// A total order on structure (not on addresses): the order in which things are printed.
int compare(Expr a, Expr b);

// Bounds of a dimension, both inclusive.
struct Bounds {
  std::int64_t min = 0;
  std::int64_t max = 0;
  friend bool operator==(const Bounds&, const Bounds&) = default;
};

// Extents of the enclosing loop: index k runs over [0, extents[k]).
using Extents = std::span<const Expr>;

// The smallest and largest value over all bounds, saturated at +-kUnbounded. Sound, but not necessarily
// tight.
inline constexpr std::int64_t kUnbounded = std::int64_t{1} << 62;
Bounds bounds(Expr e, Extents extents = {});

// True only if the relation holds for all values within bounds; false means "not proved".
bool provably_non_negative(Expr e, Extents extents = {});
bool provably_less(Expr a, Expr b, Extents extents = {});
bool provably_equal(Expr a, Expr b);
// Whether n divides all coefficients.
bool provably_multiple(Expr e, std::int64_t n);

// Applies the rules that need ranges, e.g. mod(i1, n) = i1 and floordiv(i0*n + i1, n) = i0 where 0 <= i1 < n.
Expr simplify(Expr e, Extents extents);

// Replaces symbols; `replace` returns nullopt for a symbol that stays.
Expr substitute(Expr e, const std::function<std::optional<Expr>(Expr symbol)>& replace);
// Replaces index k by by[k]; indices beyond by.size() stay.
Expr substitute_indices(Expr e, std::span<const Expr> by);

// Visits every symbol once, in canonical order.
void for_each_symbol(Expr e, const std::function<void(Expr symbol)>& visit);
bool contains(Expr e, Expr symbol);
// Whether one of the loop indices [begin, end) is in e.
bool has_index(Expr e, std::size_t begin, std::size_t end);

// The stride if e = stride * symbol + rest and neither contains the symbol (0 if `e` does not); otherwise
// nullopt.
std::optional<Expr> stride_of(Expr e, Expr symbol);
// The quotient if `divisor` divides every term exactly.
std::optional<Expr> divide_exactly(Expr e, Expr divisor);

// The value under an assignment of all its symbols.
std::int64_t evaluate(Expr e, const std::function<std::int64_t(Expr symbol)>& value_of);

// "batch*768 + i1", "floordiv(i0, 4)": the text that parse_expr() reads.
std::string to_string(Expr e);

// Owns the nodes. A pool belongs to one graph and everything derived from it, and it only grows.
class ExprPool {
 public:
  ExprPool();
  ~ExprPool();
  ExprPool(const ExprPool&) = delete;
  ExprPool& operator=(const ExprPool&) = delete;

  // Declares the dimension, or returns the existing one, whose bounds must be equal.
  Expr dim(std::string_view name, Bounds bounds);
  // The declared dimension with that name.
  std::optional<Expr> find_dim(std::string_view name) const;
  Expr index(int number);
  Expr index(std::size_t number) { return index(static_cast<int>(number)); }
  Expr value(int number);

  struct Impl;
  Impl& impl() { return *impl_; }

  // For the arithmetic in expr.cc.
  static Expr wrap(const ExprNode* node) { return Expr(node); }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace braid::ir
