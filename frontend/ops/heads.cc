#include "frontend/ops/heads.h"

#include <cmath>

#include "frontend/ops/operand_sizes.h"
#include "ir/error_numbers.h"

namespace braid::frontend {

TensorBox split_heads(OpContext& c, const TensorBox& x, std::int64_t heads) {
  const std::int64_t hidden = known_size(c, x.sizes()[2], "the hidden size");
  if (hidden % heads != 0)
    c.fail(errors::kShapeMismatch, fmt::format("{} heads do not divide the hidden size {}", heads, hidden));
  ir::Lowering& l = c.lowering();
  return l.permute(l.reshape(x, {x.sizes()[0], x.sizes()[1], heads, hidden / heads}), {0, 2, 1, 3});
}

TensorBox join_heads(OpContext& c, const TensorBox& x) {
  ir::Lowering& l = c.lowering();
  const std::vector<Expr>& s = x.sizes();
  return l.reshape(l.permute(x, {0, 2, 1, 3}), {s[0], s[2], s[1] * s[3]});
}

TensorBox rotated(OpContext& c, const TensorBox& x, const Rotation& rotation) {
  ir::Lowering& l = c.lowering();
  const std::vector<Expr>& sizes = x.sizes();
  const std::int64_t size = known_size(c, sizes[3], "the head size"),
                     half = known_size(c, rotation.cos.sizes()[1], "the width of the cache");
  if (2 * half > size)
    c.fail(errors::kShapeMismatch,
           fmt::format("{} elements of each head are rotated, but a head has {}", 2 * half, size));
  // Each pair (a, b) becomes (a cos - b sin, b cos + a sin).
  const TensorBox turned = l.slice(x, 3, 0, 2 * half);
  const std::vector<Expr> part_sizes = {sizes[0], sizes[1], sizes[2], half};
  const auto element = [&](BodyBuilder& b, std::span<const Expr> at, int which) {
    std::vector<Expr> source(at.begin(), at.end());
    source[3] = rotation.interleaved ? 2 * at[3] + which : at[3] + which * half;
    return b.cast(l.load(b, turned, source), compute_type(x.dtype()));
  };
  std::vector<TensorBox> parts;
  for (const int which : {0, 1}) {
    parts.push_back(l.generate(part_sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
      const DType compute = compute_type(x.dtype());
      const ValueId row = b.check_index(rotation.row(b, at[0], at[2]), rotation.cos.sizes()[0]);
      const std::vector<Expr> in_cache = {b.as_index(row), at[3]};
      const ValueId cos = b.cast(l.load(b, rotation.cos, in_cache), compute),
                    sin = b.cast(l.load(b, rotation.sin, in_cache), compute);
      const ValueId own = b.binary(OpCode::mul, element(b, at, which), cos),
                    other = b.binary(OpCode::mul, element(b, at, 1 - which), sin);
      return b.cast(b.binary(which == 0 ? OpCode::sub : OpCode::add, own, other), x.dtype());
    }));
  }
  if (rotation.interleaved) {
    for (TensorBox& part : parts) part = l.unsqueeze(part, 4);
    const TensorBox pairs = l.reshape(l.concat(parts, 4), {sizes[0], sizes[1], sizes[2], 2 * half});
    return 2 * half == size ? pairs : l.concat({pairs, l.slice(x, 3, 2 * half, size - 2 * half)}, 3);
  }
  if (2 * half < size) parts.push_back(l.slice(x, 3, 2 * half, size - 2 * half));
  return l.concat(parts, 3);
}

TensorBox write_cache(OpContext& c, const TensorBox& past, const TensorBox& fresh, const Expr& capacity,
                      const std::function<ValueId(BodyBuilder&, const Expr& batch)>& begin) {
  ir::Lowering& l = c.lowering();
  if (past.dtype() != fresh.dtype()) {
    c.fail(errors::kTypeMismatch, fmt::format("new elements are {}, but the cache is {}",
                                              to_string(fresh.dtype()), to_string(past.dtype())));
  }
  const std::size_t axis = past.rank() - 2, batch = past.rank() - 4;
  std::vector<Expr> sizes = past.sizes();
  sizes[axis] = capacity;
  const Expr had = past.sizes()[axis], count = fresh.sizes()[axis];
  if (ir::provably_less(capacity, count)) {
    c.fail(errors::kShapeMismatch,
           fmt::format("{} new elements for a cache of {}", to_string(count), to_string(capacity)));
  }
  l.require_at_most(count, capacity);
  // In memory, so that they can be copied where the cache lies in that of `past` (frontend/cache_update.h).
  const TensorBox rows = l.realize(fresh);
  const TensorBox present = l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    const ValueId zero = b.constant(DType::i64, std::int64_t{0});
    const ValueId position = b.index(at[axis]);
    const ValueId first = b.check_index(begin(b, at[batch]), capacity - count + 1);
    const ValueId distance = b.binary(OpCode::sub, position, first);
    const ValueId written = b.binary(OpCode::logical_and, b.binary(OpCode::ge, distance, zero),
                                     b.binary(OpCode::lt, distance, b.index(count)));
    std::vector<Expr> source(at.begin(), at.end());
    source[axis] = b.as_index(distance);
    const ValueId fresh_element = l.load(b, rows, source, written);
    if (had == capacity) return b.where(written, fresh_element, l.load(b, past, at));
    const ValueId kept = b.binary(OpCode::logical_and, b.binary(OpCode::lt, position, first),
                                  b.binary(OpCode::lt, position, b.index(had)));
    return b.where(written, fresh_element, l.load(b, past, at, kept));
  });
  return l.realize_grown(present, past);
}

ValueId only_element(OpContext& c, BodyBuilder& b, int k) {
  return b.cast(c.lowering().load(b, one_element(c, k, "input"), {}), DType::i64);
}

std::int64_t positive_attribute(OpContext& c, const char* name) {
  const std::int64_t value = c.int_attribute(name);
  if (value < 1)
    c.fail(errors::kInvalidAttribute, fmt::format("attribute '{}' is {}, expected at least 1", name, value));
  return value;
}

double score_scale(OpContext& c, const Expr& head_size) {
  const double given = c.float_attribute("scale", 0);
  return given != 0 ? given : 1 / std::sqrt(static_cast<double>(known_size(c, head_size, "the head size")));
}

}  // namespace braid::frontend
