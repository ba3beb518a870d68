// MultiHeadAttention of com.microsoft: attention of projected queries, keys and values, with an optional bias
// of the projections, masks and caches.
#include <limits>

#include "frontend/ops/attention.h"
#include "frontend/ops/heads.h"
#include "frontend/ops/operand_sizes.h"
#include "frontend/ops/padding_mask.h"
#include "frontend/schemas.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

enum Input { query, key, value, bias, padding, score_bias, past_key, past_value, past_length, indirection };

// Part `part` of [batch, sequence, heads, parts, size], as [batch, sequence, heads * size].
TensorBox packed_part(OpContext& c, int k, std::int64_t heads, std::int64_t parts, std::int64_t part) {
  const std::vector<Expr>& s = c.sizes(k);
  require_sizes(c, k, {s[0], s[1], heads, parts, s[4]},
                "(batch, sequence, heads, packed tensors, head size)");
  ir::Lowering& l = c.lowering();
  return l.reshape(l.squeeze(l.slice(c.input(k), 3, part, 1), 3), {s[0], s[1], heads * s[4]});
}

struct Projected {
  TensorBox query, key,
      value;  // [batch, sequence, hidden size] or, of a cache, [batch, heads, sequence, size]
};

Projected projections(OpContext& c, std::int64_t heads) {
  require_rank(c, query, {3, 5});
  if (c.rank(query) == 5) {
    if (c.has_input(key) || c.has_input(value))
      c.fail(errors::kInvalidNode, "input 0 holds query, key and value, but there is an input 1 or 2");
    return {packed_part(c, query, heads, 3, 0), packed_part(c, query, heads, 3, 1),
            packed_part(c, query, heads, 3, 2)};
  }
  if (!c.has_input(key)) c.fail(errors::kInvalidNode, "input 1 is missing: the query has three dimensions");
  require_rank(c, key, {3, 4, 5});
  if (c.rank(key) == 5) {
    if (c.has_input(value))
      c.fail(errors::kInvalidNode, "input 1 holds key and value, but there is an input 2");
    return {c.input(query), packed_part(c, key, heads, 2, 0), packed_part(c, key, heads, 2, 1)};
  }
  if (!c.has_input(value)) c.fail(errors::kInvalidNode, "input 2 is missing: input 1 holds the key alone");
  if (c.rank(value) != c.rank(key))
    c.fail(errors::kShapeMismatch,
           fmt::format("key and value have the ranks {} and {}", c.rank(key), c.rank(value)));
  return {c.input(query), c.input(key), c.input(value)};
}

// With the bias of the projections, split into heads.
void add_bias_and_split(OpContext& c, Projected& p, std::int64_t heads) {
  ir::Lowering& l = c.lowering();
  const Expr hidden = p.query.sizes()[2];
  const bool split = p.key.rank() == 4;
  const Expr of_value = split ? heads * p.value.sizes()[3] : p.value.sizes()[2];
  if (c.has_input(bias)) {
    require_sizes(c, bias, {2 * hidden + of_value}, "the hidden sizes of query, key and value");
    const auto biased = [&](TensorBox& x, const Expr& begin, const Expr& count) {
      x = binary(l, OpCode::add, x, l.slice(c.input(bias), 0, begin, count));
    };
    biased(p.query, 0, hidden);
    if (!split) {
      biased(p.key, hidden, hidden);
      biased(p.value, 2 * hidden, of_value);
    }
  }
  p.query = split_heads(c, p.query, heads);
  if (split) return;
  p.key = split_heads(c, p.key, heads);
  p.value = split_heads(c, p.value, heads);
}

void lower_multi_head_attention(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const std::int64_t heads = positive_attribute(c, "num_heads");
  if (c.has_input(indirection))
    c.fail(errors::kUnsupportedForm,
           "input 9 (cache_indirection) chooses keys by beam, which is not supported");
  if (c.has_input(past_key) != c.has_input(past_value))
    c.fail(errors::kInvalidNode, "the past of key and value, inputs 6 and 7, must be given together");
  Projected p = projections(c, heads);
  add_bias_and_split(c, p, heads);

  AttentionOperands a;
  MaskedSpace space{p.query.sizes()[0], heads, p.query.sizes()[2], p.key.sizes()[2], 0};
  if (c.has_input(past_key)) {
    for (const int k : {past_key, past_value}) {
      require_rank(c, k, {4});
      const std::vector<Expr>& own = (k == past_key ? p.key : p.value).sizes();
      require_sizes(c, k, {own[0], own[1], c.size(past_key, 2), own[3]}, "(batch, heads, past, head size)");
    }
    const Expr past = c.size(past_key, 2);
    if (c.has_input(past_length)) {  // a cache with room for the new elements
      if (!ir::numel(c.sizes(past_length)).is_constant(1))
        c.fail(errors::kShapeMismatch, "input 8 (past_sequence_length) must have one element");
      const auto begin = [&](BodyBuilder& b, const Expr&) { return only_element(c, b, past_length); };
      const Expr count = p.key.sizes()[2];
      p.key = write_cache(c, c.input(past_key), p.key, past, begin);
      p.value = write_cache(c, c.input(past_value), p.value, past, begin);
      const auto of_row = [&](const Expr& more) {
        return l.generate({space.batch}, [&](BodyBuilder& b, std::span<const Expr> at) {
          return b.binary(OpCode::add, begin(b, at[0]), b.index(more));
        });
      };
      a.first_query_of_row = of_row(0);
      a.valid_keys = of_row(count);
      space.shorter_masks = true;
    } else {
      p.key = l.concat({c.input(past_key), p.key}, 2);
      p.value = l.concat({c.input(past_value), p.value}, 2);
      space.past = past;
    }
    space.keys = p.key.sizes()[2];
  } else if (c.has_input(past_length)) {
    c.fail(errors::kInvalidNode, "input 8 (past_sequence_length) is given without the past of key and value");
  }

  std::optional<TensorBox> mask =
      padding_mask(c, padding, space, c.float_attribute("mask_filter_value", -10000), false);
  if (c.has_input(score_bias)) mask = both(c, mask, attention_bias(c, score_bias, space));
  if (c.has_output(1)) c.set_output(1, p.key);
  if (c.has_output(2)) c.set_output(2, p.value);
  for (const TensorBox* x : {&p.key, &p.value}) l.mark_reuse(*x, 2);
  a.query = p.query;
  a.key = p.key;
  a.value = p.value;
  a.mask = mask;
  a.scale = score_scale(c, p.query.sizes()[3]);
  a.causal = c.int_attribute("unidirectional", 0) != 0;
  a.first_query = space.past;
  if (c.has_output(3)) {
    const AttentionScores scores = spell_out_attention(c, a);
    // ONNX Runtime adds the lowest float where a key is not attended.
    const double lowest = std::numeric_limits<float>::lowest();
    c.set_output(3, l.pointwise({scores.masked}, [&](BodyBuilder& b, std::span<const ValueId> v) {
      return b.cast(b.binary(OpCode::max, v[0], b.constant_of(b.dtype(v[0]), lowest)), c.dtype(query));
    }));
    return c.set_output(0, join_heads(c, scores.result));
  }
  c.set_output(0, join_heads(c, attend(c, a)));
}

constexpr TypeSet kTypes = {DType::f32, DType::f16, DType::bf16};

}  // namespace

std::span<const OpSpec> multi_head_attention_ops() {
  static const OpSpec ops[] = {
      {kMicrosoftDomain, "MultiHeadAttention", 1, 1, kTypes, lower_multi_head_attention,
       work::attention({.key = 1, .past = 6, .causal = "unidirectional"}), rule::kMultiHeadAttention,
       carries({{1, 6}, {2, 7}}), kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
