// Scaled dot-product attention: what all attention operators are lowered to.
#include "frontend/ops/attention.h"

#include <cmath>
#include <limits>
#include <utility>

#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

void require_rank(OpContext& c, const TensorBox& x, std::size_t rank, const char* what) {
  if (x.rank() != rank)
    c.fail(errors::kShapeMismatch, fmt::format("{} has rank {}, expected {}", what, x.rank(), rank));
}

// How many query heads share a key head. The numbers of heads must be known.
std::int64_t heads_per_key_head(OpContext& c, const AttentionOperands& a) {
  const Expr heads = a.query.sizes()[1], key_heads = a.key.sizes()[1];
  if (heads == key_heads) return 1;
  if (!heads.is_constant() || !key_heads.is_constant()) {
    c.fail(errors::kUnknownShape, fmt::format("the numbers of heads, {} and {}, are not known",
                                              to_string(heads), to_string(key_heads)));
  }
  if (key_heads.constant() <= 0 || heads.constant() <= 0 || heads.constant() % key_heads.constant() != 0) {
    c.fail(errors::kShapeMismatch,
           fmt::format("{} heads of the query for {} of the key", to_string(heads), to_string(key_heads)),
           "the heads of the key must divide those of the query");
  }
  return heads.constant() / key_heads.constant();
}

// Types and sizes that fit; afterwards the mask has rank 4.
void check(OpContext& c, AttentionOperands& a) {
  ir::Lowering& l = c.lowering();
  require_rank(c, a.query, 4, "the query");
  require_rank(c, a.key, 4, "the key");
  require_rank(c, a.value, 4, "the value");
  for (const TensorBox* x : {&a.query, &a.key, &a.value}) {
    if (!is_float(x->dtype()))
      c.fail(errors::kTypeMismatch,
             fmt::format("attention of {}, expected a float type", to_string(x->dtype())));
  }
  const auto same = [&](const TensorBox& x, std::size_t i, const TensorBox& y, std::size_t k,
                        const char* what) {
    const Expr p = x.sizes()[i], q = y.sizes()[k];
    if (p.is_constant() && q.is_constant() && !(p == q))
      c.fail(errors::kShapeMismatch, fmt::format("{} differ: {} and {}", what, to_string(p), to_string(q)));
    l.require_equal(p, q);
  };
  same(a.query, 0, a.key, 0, "the batches of query and key");
  same(a.query, 0, a.value, 0, "the batches of query and value");
  same(a.query, 3, a.key, 3, "the head sizes of query and key");
  same(a.key, 1, a.value, 1, "the heads of key and value");
  same(a.key, 2, a.value, 2, "the lengths of key and value");
  heads_per_key_head(c, a);
  for (const auto& [value, what] : {std::pair{a.scale, "scale"}, std::pair{a.softcap, "softcap"}}) {
    if (!std::isfinite(value))
      c.fail(errors::kInvalidAttribute,
             fmt::format("attribute '{}' is {}, expected a finite number", what, value));
  }
  if (a.mask) {
    TensorBox& mask = *a.mask;
    if (mask.dtype() != DType::boolean && !is_float(mask.dtype()))
      c.fail(errors::kTypeMismatch,
             fmt::format("a mask of {}, expected bool or a float type", to_string(mask.dtype())));
    if (mask.rank() > 4)
      c.fail(errors::kShapeMismatch, fmt::format("the mask has rank {}, expected at most 4", mask.rank()));
    while (mask.rank() < 4) mask = l.unsqueeze(mask, 0);
    const Expr wanted[] = {a.query.sizes()[0], a.query.sizes()[1], a.query.sizes()[2], a.key.sizes()[2]};
    for (std::size_t d = 0; d < 4; ++d) {
      const Expr have = mask.sizes()[d];
      if (have.is_constant(1)) continue;
      if (have.is_constant() && wanted[d].is_constant() && !(have == wanted[d])) {
        c.fail(errors::kShapeMismatch,
               fmt::format("the mask has size {} in dimension {} of 4, expected {} or 1", to_string(have), d,
                           to_string(wanted[d])));
      }
      l.require_equal(have, wanted[d]);
    }
  }
  for (const auto* row : {&a.valid_keys, &a.first_query_of_row}) {
    if (!*row) continue;
    require_rank(c, **row, 1, "a number per row");
    if ((*row)->dtype() != DType::i32 && (*row)->dtype() != DType::i64)
      c.fail(errors::kTypeMismatch,
             fmt::format("numbers per row of {}, expected i32 or i64", to_string((*row)->dtype())));
    same(a.query, 0, **row, 0, "the batches of query and numbers per row");
  }
  if (a.causal) a.after = Expr(0);
  if (a.window) a.before = *a.window - 1;
}

// Heads of one key head lie next to each other: [batch, key_heads, heads per key head, ...].
TensorBox split_heads(ir::Lowering& l, const TensorBox& x, std::int64_t shared) {
  const auto& s = x.sizes();
  const Expr key_heads = s[1].is_constant() ? Expr(s[1].constant() / shared) : s[1];
  std::vector<Expr> map = {l.pool().index(0), l.pool().index(1) * shared + l.pool().index(2),
                           l.pool().index(3), l.pool().index(4)};
  return l.view(x, {s[0], key_heads, Expr(shared), s[2], s[3]}, std::move(map));
}

TensorBox join_heads(ir::Lowering& l, const TensorBox& x) {
  const auto& s = x.sizes();
  return l.reshape(x, {s[0], s[1] * s[2], s[3], s[4]});
}

TensorBox product(ir::Lowering& l, const TensorBox& x, const TensorBox& y, std::int64_t shared) {
  if (shared == 1) return l.matmul(x, y);
  return join_heads(l, l.matmul(split_heads(l, x, shared), l.unsqueeze(y, 2)));
}

// Returns whether the key at index[3] may be attended by the query at index[2], as far as positions tell;
// nullopt if it always may.
std::optional<ValueId> attended(ir::Lowering& l, BodyBuilder& b, const AttentionOperands& a,
                                std::span<const Expr> index) {
  std::optional<ValueId> all;
  const auto require = [&](ValueId v) { all = all ? b.binary(OpCode::logical_and, *all, v) : v; };
  const auto of_row = [&](const TensorBox& x) { return b.cast(l.load(b, x, index.first(1)), DType::i64); };
  const ValueId key = b.index(index[3]);
  if (a.valid_keys) require(b.binary(OpCode::lt, key, of_row(*a.valid_keys)));
  if (a.after || a.before) {
    const ValueId position = a.first_query_of_row
                                 ? b.binary(OpCode::add, of_row(*a.first_query_of_row), b.index(index[2]))
                                 : b.index(a.first_query + index[2]);
    const auto limit = [&](OpCode code, const Expr& distance) {
      return distance.is_constant(0) ? position : b.binary(code, position, b.index(distance));
    };
    if (a.after) require(b.binary(OpCode::le, key, limit(OpCode::add, *a.after)));
    if (a.before) require(b.binary(OpCode::ge, key, limit(OpCode::sub, *a.before)));
  }
  return all;
}

}  // namespace

AttentionScores spell_out_attention(OpContext& c, AttentionOperands a) {
  ir::Lowering& l = c.lowering();
  check(c, a);
  const std::int64_t shared = heads_per_key_head(c, a);
  const DType type = compute_type(a.query.dtype());
  const TensorBox query = l.cast(a.query, type), key = l.cast(a.key, type), value = l.cast(a.value, type);
  AttentionScores s;
  s.product = product(l, query, l.permute(key, {0, 1, 3, 2}), shared);
  if (a.scale != 1) {
    s.product = l.pointwise({s.product}, [&](BodyBuilder& b, std::span<const ValueId> v) {
      return b.binary(OpCode::mul, v[0], b.constant_of(type, a.scale));
    });
  }
  s.capped = s.product;
  if (a.softcap != 0) {
    s.capped = l.pointwise({s.product}, [&](BodyBuilder& b, std::span<const ValueId> v) {
      const ValueId cap = b.constant_of(type, a.softcap);
      return b.binary(OpCode::mul, b.unary(OpCode::tanh, b.binary(OpCode::div, v[0], cap)), cap);
    });
  }
  const std::vector<Expr> sizes = s.capped.sizes();
  std::optional<TensorBox> mask;
  if (a.mask) mask = l.expand(*a.mask, sizes);
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  s.masked = l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> index) {
    ValueId score = l.load(b, s.capped, index);
    const ValueId none = b.constant_of(type, kNone);
    if (mask) {
      const ValueId m = l.load(b, *mask, index);
      score = mask->dtype() == DType::boolean ? b.where(m, score, b.constant_of(type, a.fill))
                                              : b.binary(OpCode::add, score, b.cast(m, type));
    }
    if (const std::optional<ValueId> may = attended(l, b, a, index)) score = b.where(*may, score, none);
    return score;
  });
  l.mark_reuse(s.masked, 3);
  const TensorBox most = l.reduce(s.masked, ir::ReduceKind::max, {3}, true);
  const TensorBox exponential =
      l.pointwise({s.masked, most}, [&](BodyBuilder& b, std::span<const ValueId> v) {
        const ValueId zero = b.constant_of(type, 0);
        return b.where(b.binary(OpCode::eq, v[0], b.constant_of(type, kNone)), zero,
                       b.unary(OpCode::exp, b.binary(OpCode::sub, v[0], v[1])));
      });
  l.mark_reuse(exponential, 2);
  const TensorBox sum = l.reduce(exponential, ir::ReduceKind::sum, {3}, true);
  s.weights = l.pointwise({exponential, sum}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    const ValueId zero = b.constant_of(type, 0);
    return b.where(b.binary(OpCode::eq, v[1], zero), zero, b.binary(OpCode::div, v[0], v[1]));
  });
  // With valid_keys the product cannot give the result: a weight of 0 times an unwritten element may be NaN.
  s.result = a.valid_keys ? attend(c, a) : l.cast(product(l, s.weights, value, shared), a.query.dtype());
  return s;
}

TensorBox attend(OpContext& c, AttentionOperands a) {
  ir::Lowering& l = c.lowering();
  check(c, a);
  const DType type = a.query.dtype();
  ir::Lowering::AttentionViews views;
  views.query = a.query;
  views.key = l.cast(a.key, type);
  views.value = l.cast(a.value, type);
  if (a.mask) views.mask = *a.mask;
  if (a.valid_keys) views.valid_keys = *a.valid_keys;
  ir::Attention kernel;
  kernel.scale = a.scale;
  kernel.softcap = a.softcap;
  if (a.mask && a.mask->dtype() == DType::boolean) {
    kernel.fill = a.fill;
    kernel.adds_fill = a.adds_fill;
  }
  kernel.undefined = a.undefined;
  kernel.before = a.before;
  kernel.after = a.after;
  if (a.before || a.after) {
    if (a.first_query_of_row)
      views.positions = *a.first_query_of_row;
    else
      kernel.first_position = a.first_query;
  }
  return l.attention(std::move(kernel), std::move(views));
}

}  // namespace braid::frontend
