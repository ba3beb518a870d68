#include "passes/reshape_loops.h"

#include <algorithm>
#include <functional>

#include "ir/error.h"

namespace braid::passes {
namespace {

using namespace ir;

Expr zero() { return Expr(std::int64_t{0}); }

// The loop with index k replaced by by[k] over new sizes.
Loops replaced(const Loops& loops, std::vector<Expr> sizes, std::span<const Expr> by) {
  Loops out = loops;
  const auto at = [&](Expr e) { return simplify(substitute_indices(e, by), sizes); };
  for (Instr& instr : out.body.instrs) instr.index = at(instr.index);
  out.store_index = at(out.store_index);
  out.sizes = std::move(sizes);
  return out;
}

bool for_all_indices(const Loops& loops, const std::function<bool(Expr)>& holds) {
  if (!holds(loops.store_index)) return false;
  return std::all_of(loops.body.instrs.begin(), loops.body.instrs.end(),
                     [&](const Instr& instr) { return holds(instr.index); });
}

}  // namespace

std::pair<Factors, Factors> common_factors(std::span<const Expr> a, std::span<const Expr> b) {
  Factors fa(a.size()), fb(b.size());
  std::size_t i = 0, j = 0;
  Expr left = 1, right = 1;
  bool has_left = false, has_right = false;
  for (;;) {
    if (!has_left) {
      if (i == a.size()) break;
      left = a[i];
      if (left.is_constant(1)) {
        ++i;
        continue;
      }
      has_left = true;
    }
    if (!has_right) {
      if (j == b.size()) break;
      right = b[j];
      if (right.is_constant(1)) {
        ++j;
        continue;
      }
      has_right = true;
    }
    if (left == right) {
      fa[i++].push_back(left);
      fb[j++].push_back(right);
      has_left = has_right = false;
    } else if (const auto rest = divide_exactly(left, right); rest && !rest->is_constant(0)) {
      fa[i].push_back(right);
      fb[j++].push_back(right);
      left = *rest;
      has_right = false;
    } else if (const auto rest_right = divide_exactly(right, left);
               rest_right && !rest_right->is_constant(0)) {
      fb[j].push_back(left);
      fa[i++].push_back(left);
      right = *rest_right;
      has_left = false;
    } else {
      break;
    }
  }
  // The rest stays one dimension.
  if (has_left) fa[i++].push_back(left);
  if (has_right) fb[j++].push_back(right);
  for (; i < a.size(); ++i) fa[i].push_back(a[i]);
  for (; j < b.size(); ++j) fb[j].push_back(b[j]);
  return {fa, fb};
}

Loops split_dims(const Loops& loops, const Factors& factors, ExprPool& pool) {
  internal_check(factors.size() <= loops.kept(), "only kept dimensions are split");
  std::vector<Expr> sizes, by;
  for (std::size_t k = 0; k < loops.sizes.size(); ++k) {
    if (k >= factors.size()) {
      by.push_back(pool.index(sizes.size()));
      sizes.push_back(loops.sizes[k]);
      continue;
    }
    Expr index = zero();
    for (const Expr& factor : factors[k]) {
      index = index * factor + pool.index(sizes.size());
      sizes.push_back(factor);
    }
    by.push_back(index);
  }
  return replaced(loops, std::move(sizes), by);
}

bool can_merge_dims(const Loops& loops, std::size_t k) {
  const std::size_t kept = loops.kept();
  if (k + 1 >= loops.sizes.size() || (k < kept) != (k + 1 < kept)) return false;
  Expr outer, inner;
  bool known = false;
  const auto find = [&](Expr e) {
    for_each_symbol(e, [&](Expr s) {
      if (!s.is_symbol(SymbolKind::index)) return;
      if (s.symbol_number() == static_cast<int>(k)) outer = s, known = true;
      if (s.symbol_number() == static_cast<int>(k) + 1) inner = s, known = true;
    });
  };
  find(loops.store_index);
  for (const Instr& instr : loops.body.instrs) find(instr.index);
  if (!known) return true;
  return for_all_indices(loops, [&](Expr e) {
    const std::optional<Expr> slow = outer.is_constant() ? std::optional(zero()) : stride_of(e, outer);
    const std::optional<Expr> fast = inner.is_constant() ? std::optional(zero()) : stride_of(e, inner);
    return slow && fast && *slow == *fast * loops.sizes[k + 1];
  });
}

Loops merge_dims(const Loops& loops, std::size_t k, ExprPool& pool) {
  std::vector<Expr> sizes = loops.sizes, by;
  for (std::size_t d = 0; d < loops.sizes.size(); ++d) {
    by.push_back(d < k ? pool.index(d) : d == k ? zero() : pool.index(static_cast<int>(d) - 1));
  }
  sizes[k] = sizes[k] * sizes[k + 1];
  sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(k) + 1);
  Loops out = replaced(loops, std::move(sizes), by);
  if (k >= loops.kept()) --out.reduced;
  return out;
}

std::optional<std::vector<Expr>> reindex(std::span<const Expr> sizes, std::span<const Expr> over,
                                         ExprPool& pool) {
  std::vector<Expr> out(sizes.size(), zero());
  const auto empty = [](std::span<const Expr> s) {
    return std::any_of(s.begin(), s.end(), [](Expr e) { return e.is_constant(0); });
  };
  // Without elements no index is ever used, and sizes of 0 have no factors.
  if (empty(sizes) || empty(over)) return empty(sizes) && empty(over) ? std::optional(out) : std::nullopt;
  const auto skip_ones = [](std::span<const Expr> s, std::size_t& k) {
    while (k < s.size() && s[k].is_constant(1)) ++k;
  };
  std::size_t i = 0, j = 0;
  for (;;) {
    skip_ones(sizes, i);
    skip_ones(over, j);
    if (i == sizes.size() && j == over.size()) return out;
    if (i == sizes.size() || j == over.size()) return std::nullopt;
    // A group of dimensions on both sides with equal products.
    const std::size_t first_i = i, first_j = j;
    Expr left = sizes[i++], right = over[j++];
    while (!(left == right)) {
      if (j < over.size() && (divide_exactly(left, right) || i == sizes.size())) {
        right = right * over[j++];
      } else if (i < sizes.size()) {
        left = left * sizes[i++];
      } else {
        return std::nullopt;
      }
    }
    Expr flat = zero();
    for (std::size_t k = first_j; k < j; ++k) {
      flat = flat * over[k] + (over[k].is_constant(1) ? zero() : pool.index(k));
    }
    Expr inner = 1;
    for (std::size_t k = i; k-- > first_i;) {
      Expr e = inner.is_constant(1) ? flat : floor_div(flat, inner);
      if (k != first_i) e = mod(e, sizes[k]);
      out[k] = sizes[k].is_constant(1) ? zero() : simplify(e, over);
      inner = inner * sizes[k];
    }
  }
}

}  // namespace braid::passes
