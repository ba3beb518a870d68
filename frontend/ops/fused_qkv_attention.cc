// Attention of com.microsoft: one product projects the input to queries, keys and values, which attend to
// each other and to a cache.
#include "frontend/ops/attention.h"
#include "frontend/ops/heads.h"
#include "frontend/ops/operand_sizes.h"
#include "frontend/ops/padding_mask.h"
#include "frontend/ops/real.h"
#include "frontend/schemas.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

enum Input { input, weights, bias, mask_index, past, score_bias, past_length };

// Hidden sizes of query, key and value.
struct HiddenSizes {
  std::int64_t query, key, value;
  std::int64_t sum() const { return query + key + value; }
};

HiddenSizes hidden_sizes(OpContext& c) {
  require_rank(c, input, {3});
  const std::int64_t columns = known_size(c, c.size(weights, -1), "the number of columns of the weights");
  HiddenSizes sizes{columns / 3, columns / 3, columns / 3};
  if (const auto given = c.ints_attribute("qkv_hidden_sizes"); given && !given->empty()) {
    if (given->size() != 3 || (*given)[0] < 1 || (*given)[1] < 1 || (*given)[2] < 1) {
      c.fail(errors::kInvalidAttribute,
             fmt::format("attribute 'qkv_hidden_sizes' is [{}], expected three positive numbers",
                         fmt::join(*given, ", ")));
    }
    if ((*given)[0] != (*given)[1]) {
      c.fail(errors::kInvalidAttribute,
             fmt::format("attribute 'qkv_hidden_sizes' is [{}], but query and key must have one size",
                         fmt::join(*given, ", ")));
    }
    sizes = {(*given)[0], (*given)[1], (*given)[2]};
  }
  if (sizes.sum() != columns) {
    c.fail(
        errors::kShapeMismatch,
        fmt::format("the weights have {} columns, but the hidden sizes add up to {}", columns, sizes.sum()));
  }
  require_sizes(c, weights, {c.size(input, 2), columns},
                "(input hidden size, hidden sizes of query, key and value)");
  if (c.has_input(bias)) require_sizes(c, bias, {columns}, "the hidden sizes of query, key and value");
  return sizes;
}

// Rotates as attribute do_rotary asks, with the angles of GPT-NeoX: position / 10000^(2 j / rotated
// elements).
TensorBox rotated_by_position(OpContext& c, const TensorBox& x, const MaskedSpace& space,
                              const std::function<ValueId(BodyBuilder&, const Expr&)>& first) {
  ir::Lowering& l = c.lowering();
  const std::int64_t size = known_size(c, x.sizes()[3], "the head size");
  std::int64_t turned = c.int_attribute("rotary_embedding_dim", 0);
  if (turned == 0) turned = size;
  if (turned < 2 || turned > size || turned % 2 != 0) {
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute 'rotary_embedding_dim' is {}, expected an even number up to the head "
                       "size {}",
                       turned, size));
  }
  // One row per position of this step and row of the batch.
  const auto table = [&](OpCode code) {
    return l.realize(
        l.generate({space.batch * space.queries, turned / 2}, [&](BodyBuilder& b, std::span<const Expr> at) {
          const Expr row = ir::floor_div(at[0], space.queries), step = ir::mod(at[0], space.queries);
          const ValueId position = b.binary(OpCode::add, first(b, row), b.index(step));
          const Real exponent = real(b, at[1]) * (-2.0 / static_cast<double>(turned));
          const Real frequency = apply(OpCode::exp, exponent * std::log(10000.0));
          const Real angle = Real{&b, b.cast(position, DType::f64)} * frequency;
          return b.cast(apply(code, angle).v, DType::f32);
        }));
  };
  Rotation r{table(OpCode::cos), table(OpCode::sin)};
  r.row = [&](BodyBuilder& b, const Expr& row, const Expr& step) {
    return b.index(row * space.queries + step);
  };
  return rotated(c, x, r);
}

void lower_fused_qkv_attention(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const std::int64_t heads = positive_attribute(c, "num_heads");
  const HiddenSizes sizes = hidden_sizes(c);
  TensorBox all = l.matmul(c.input(input), c.input(weights));
  const auto part = [&](std::int64_t begin, std::int64_t count) {
    TensorBox x = l.slice(all, 2, begin, count);
    if (c.has_input(bias)) x = binary(l, OpCode::add, x, l.slice(c.input(bias), 0, begin, count));
    return split_heads(c, x, heads);
  };
  AttentionOperands a;
  a.query = part(0, sizes.query);
  a.key = part(sizes.query, sizes.key);
  a.value = part(sizes.query + sizes.key, sizes.value);
  const std::vector<Expr> own = a.key.sizes();
  MaskedSpace space{own[0], heads, own[2], own[2], 0};

  const bool shared = c.int_attribute("past_present_share_buffer", 0) != 0;
  if (shared && (!c.has_input(past) || !c.has_input(past_length)))
    c.fail(errors::kInvalidNode,
           "attribute 'past_present_share_buffer' requires inputs 4 (past) and 6 (past_sequence_length)");
  const bool stacked = c.has_input(past) || c.has_output(1);
  if (stacked && sizes.value != sizes.key) {
    c.fail(errors::kShapeMismatch,
           fmt::format("a cache holds keys and values in one tensor, but their hidden sizes are {} and {}",
                       sizes.key, sizes.value));
  }
  if (c.has_input(past)) {
    require_rank(c, past, {5});
    require_sizes(c, past, {2, own[0], own[1], c.size(past, 3), own[3]},
                  "(2, batch, heads, past, head size)");
    space.past = shared ? Expr(0) : c.size(past, 3);
  }
  if (shared && !ir::numel(c.sizes(past_length)).is_constant(1))
    c.fail(errors::kShapeMismatch, "input 6 (past_sequence_length) must have one element");
  const auto first = [&](BodyBuilder& b, const Expr&) {
    return shared ? only_element(c, b, past_length) : b.index(space.past);
  };
  if (c.int_attribute("do_rotary", 0) != 0) {
    a.query = rotated_by_position(c, a.query, space, first);
    a.key = rotated_by_position(c, a.key, space, first);
  }
  if (stacked) {
    // Keys and values together: [2, batch, heads, sequence, size].
    TensorBox present = l.concat({l.unsqueeze(a.key, 0), l.unsqueeze(a.value, 0)}, 0);
    if (c.has_input(past))
      present = shared ? write_cache(c, c.input(past), present, c.size(past, 3), first)
                       : l.concat({c.input(past), present}, 3);
    const Expr keys = present.sizes()[3];
    if (c.has_output(1)) c.set_output(1, present);
    a.key = l.squeeze(l.slice(present, 0, 0, 1), 0);
    a.value = l.squeeze(l.slice(present, 0, 1, 1), 0);
    space.keys = keys;
  }
  if (shared) {
    const auto of_row = [&](const Expr& more) {
      return l.generate({space.batch}, [&](BodyBuilder& b, std::span<const Expr> at) {
        return b.binary(OpCode::add, first(b, at[0]), b.index(more));
      });
    };
    a.first_query_of_row = of_row(0);
    a.valid_keys = of_row(space.queries);
    space.shorter_masks = true;
  }
  if (shared && c.has_input(mask_index) && c.rank(mask_index) == 4)
    c.fail(errors::kUnsupportedForm, "a mask of four dimensions with a shared cache is not supported");
  a.mask = padding_mask(c, mask_index, space, c.float_attribute("mask_filter_value", -10000), true);
  if (c.has_input(score_bias)) a.mask = both(c, a.mask, attention_bias(c, score_bias, space));
  a.scale = score_scale(c, own[3]);
  a.causal = c.int_attribute("unidirectional", 0) != 0;
  a.first_query = space.past;
  c.set_output(0, join_heads(c, attend(c, a)));
}

constexpr TypeSet kTypes = {DType::f32, DType::f16, DType::bf16};

}  // namespace

std::span<const OpSpec> fused_qkv_attention_ops() {
  static const OpSpec ops[] = {
      {kMicrosoftDomain, "Attention", 1, 1, kTypes, lower_fused_qkv_attention,
       work::attention({.weights = 1, .past = 4, .causal = "unidirectional"}), rule::kFusedQkvAttention,
       carries({{1, 4}}), kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
