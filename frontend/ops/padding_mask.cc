#include "frontend/ops/padding_mask.h"

#include "frontend/ops/operand_sizes.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

// The element of a mask whose last axis has `have` keys; `beyond` for a key after them.
ValueId masked_element(OpContext& c, BodyBuilder& b, const TensorBox& mask, std::vector<Expr> at,
                       const MaskedSpace& space, double beyond,
                       const std::function<ValueId(ValueId)>& value) {
  const Expr have = mask.sizes().back(), key = at.back();
  if (!space.shorter_masks || have == space.keys) return value(c.lowering().load(b, mask, at));
  const ValueId there = b.binary(OpCode::lt, b.index(key), b.index(have));
  return b.where(there, value(c.lowering().load(b, mask, at, there)), b.constant_of(DType::f32, beyond));
}

// The last axis must be that of the keys.
Expr keys_of_mask(OpContext& c, int k, const MaskedSpace& space) {
  const Expr have = c.size(k, -1);
  if (!space.shorter_masks) return space.keys;
  if (ir::provably_less(space.keys, have)) {
    c.fail(errors::kShapeMismatch, fmt::format("input {} is for {} keys, but there are at most {}", k,
                                               to_string(have), to_string(space.keys)));
  }
  c.lowering().require_at_most(have, space.keys);
  return have;
}

// A vector: positions where keys end and, in some, begin.
TensorBox mask_of_positions(OpContext& c, int k, const MaskedSpace& space, double filter, bool starts) {
  ir::Lowering& l = c.lowering();
  const Expr length = c.size(k, 0);
  const bool begins = starts && length == 2 * space.batch;
  if (!begins && !(length == space.batch) && !(length == 3 * space.batch + 2)) {
    if (length.is_constant()) {
      const int code = space.batch.is_constant() ? errors::kShapeMismatch : errors::kUnsupportedForm;
      c.fail(code,
             fmt::format("input {} has {} elements, expected {}, {}{} + 2", k, to_string(length),
                         to_string(space.batch), starts ? to_string(2 * space.batch) + " or " : "or ",
                         to_string(3 * space.batch)),
             "give the mask's dimension the same name or size as the batch");
    }
    l.require_equal(length, space.batch);
  }
  const TensorBox positions = c.input(k);
  return l.generate({space.batch, 1, 1, space.keys}, [&](BodyBuilder& b, std::span<const Expr> at) {
    const ValueId key = b.index(at[3]);
    const auto position = [&](const Expr& row) {
      return b.cast(l.load(b, positions, std::vector<Expr>{row}), DType::i64);
    };
    ValueId masked = b.binary(OpCode::ge, key, position(at[0]));
    if (begins)
      masked = b.binary(OpCode::logical_or, masked, b.binary(OpCode::lt, key, position(at[0] + space.batch)));
    return b.where(masked, b.constant_of(DType::f32, filter), b.constant_of(DType::f32, 0));
  });
}

}  // namespace

std::optional<TensorBox> padding_mask(OpContext& c, int k, const MaskedSpace& space, double filter,
                                      bool starts) {
  if (!c.has_input(k)) return std::nullopt;
  ir::Lowering& l = c.lowering();
  const int rank = c.rank(k);
  if (rank < 1 || rank > (starts ? 4 : 3)) {
    c.fail(errors::kShapeMismatch,
           fmt::format("input {} has rank {}, expected 1 to {}", k, rank, starts ? 4 : 3));
  }
  if (rank == 1) return mask_of_positions(c, k, space, filter, starts);
  if (starts && rank == 2 && c.size(k, 1).is_constant(1)) return std::nullopt;
  const Expr keys = rank == 4 ? c.size(k, 3) : keys_of_mask(c, k, space);
  if (rank == 2) require_sizes(c, k, {space.batch, keys}, "(batch, keys)");
  if (rank == 3) require_sizes(c, k, {space.batch, space.queries, keys}, "(batch, queries, keys)");
  if (rank == 4) {
    require_sizes(c, k, {space.batch, 1, keys, keys}, "(batch, 1, positions, positions)");
    l.require_at_most(space.keys, keys);
    l.require_at_most(space.past + space.queries, keys);
  }
  const TensorBox mask = c.input(k);
  const std::vector<Expr> sizes = {space.batch, 1, rank == 2 ? Expr(1) : space.queries, space.keys};
  return l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    std::vector<Expr> source = {at[0]};
    if (rank == 3) source.push_back(at[2]);
    if (rank == 4) source.insert(source.end(), {0, space.past + at[2]});
    source.push_back(at[3]);
    MaskedSpace read = space;
    read.shorter_masks = space.shorter_masks && rank < 4;
    return masked_element(c, b, mask, source, read, filter, [&](ValueId v) {
      const ValueId counts = b.binary(OpCode::gt, v, b.constant_of(b.dtype(v), 0));
      return b.where(counts, b.constant_of(DType::f32, 0), b.constant_of(DType::f32, filter));
    });
  });
}

TensorBox attention_bias(OpContext& c, int k, const MaskedSpace& space) {
  ir::Lowering& l = c.lowering();
  require_rank(c, k, {4});
  const std::vector<Expr> own = c.sizes(k);
  const Expr keys = keys_of_mask(c, k, space);
  require_sizes(c, k,
                {own[0].is_constant(1) ? own[0] : space.batch, own[1].is_constant(1) ? own[1] : space.heads,
                 space.queries, keys},
                "(batch or 1, heads or 1, queries, keys)");
  const TensorBox bias = c.input(k);
  return l.generate({own[0], own[1], own[2], space.keys}, [&](BodyBuilder& b, std::span<const Expr> at) {
    return masked_element(c, b, bias, {at.begin(), at.end()}, space, 0,
                          [&](ValueId v) { return b.cast(v, DType::f32); });
  });
}

std::optional<TensorBox> both(OpContext& c, std::optional<TensorBox> mask, std::optional<TensorBox> bias) {
  if (!mask || !bias) return mask ? mask : bias;
  return binary(c.lowering(), OpCode::add, *mask, *bias);
}

}  // namespace braid::frontend
