// ONNX's Attention: scaled dot products with masks, windows and caches.
#include <algorithm>
#include <cmath>
#include <limits>

#include "frontend/ops/attention.h"
#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

enum Input { kQuery, kKey, kValue, kMask, kPastKey, kPastValue, kValidKeys };
enum Output { kResult, kPresentKey, kPresentValue, kScores };

// [batch, length, heads * size] as [batch, heads, length, size].
TensorBox split_heads(OpContext& c, const TensorBox& x, const char* attribute) {
  const std::int64_t heads = c.int_attribute(attribute, 0);
  if (heads < 1) {
    c.fail(errors::kInvalidAttribute, fmt::format("attribute '{}' is {}", attribute, heads),
           "inputs of rank 3 need the numbers of heads");
  }
  const Expr hidden = x.sizes()[2];
  if (hidden.is_constant() && hidden.constant() % heads != 0)
    c.fail(errors::kShapeMismatch,
           fmt::format("{} heads do not divide a size of {}", heads, to_string(hidden)));
  const Expr size = ir::divide_exactly(hidden, heads).value_or(floor_div(hidden, heads));
  return c.lowering().permute(c.lowering().reshape(x, {x.sizes()[0], x.sizes()[1], heads, size}),
                              {0, 2, 1, 3});
}

// Returns the mask with a last dimension of `keys`; keys after the mask's end are not attended to.
TensorBox padded_mask(OpContext& c, const TensorBox& mask, const Expr& keys) {
  if (mask.rank() == 0) c.fail(errors::kShapeMismatch, "the mask is a scalar");
  const std::size_t last = mask.rank() - 1;
  const Expr have = mask.sizes()[last];
  if (have == keys) return mask;
  if (ir::provably_less(keys, have)) {
    c.fail(errors::kShapeMismatch,
           fmt::format("the mask is for {} keys, but there are {}", to_string(have), to_string(keys)));
  }
  ir::Lowering& l = c.lowering();
  l.require_at_most(have, keys);
  std::vector<Expr> sizes = mask.sizes();
  sizes[last] = keys;
  return l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    const ValueId inside = b.binary(OpCode::lt, b.index(at[last]), b.index(have));
    const ValueId given = l.load(b, mask, at, inside);
    return b.where(inside, given,
                   mask.dtype() == DType::boolean
                       ? b.constant(DType::boolean, std::int64_t{0})
                       : b.constant_of(mask.dtype(), -std::numeric_limits<double>::infinity()));
  });
}

void check_form(OpContext& c) {
  const int rank = c.rank(kQuery);
  if (rank != 3 && rank != 4)
    c.fail(errors::kShapeMismatch, fmt::format("the query has rank {}, expected 3 or 4", rank));
  for (int k : {kKey, kValue}) {
    if (c.rank(k) != rank) c.fail(errors::kShapeMismatch, "query, key and value must have equal ranks");
  }
  if (rank == 4 && c.version() >= 25 && (c.has_attribute("q_num_heads") || c.has_attribute("kv_num_heads")))
    c.fail(errors::kInvalidAttribute,
           "inputs of rank 4 have their numbers of heads, which no attribute may give too");
  if (c.has_input(kPastKey) != c.has_input(kPastValue))
    c.fail(errors::kInvalidNode, "the past of the key and that of the value must be given together");
  if (c.has_input(kPastKey) && c.has_input(kValidKeys))
    c.fail(errors::kInvalidNode, "inputs 'past_key' and 'nonpad_kv_seqlen' exclude each other");
  const std::int64_t mode = c.int_attribute("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3)
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute 'qk_matmul_output_mode' is {}, expected 0 to 3", mode));
  if (c.has_attribute("softmax_precision")) {
    // We compute in f32 or f64, which is at least as precise as rounding to the types of the operands.
    const std::int64_t precision = c.int_attribute("softmax_precision");
    if (!is_float(c.dtype_of(precision)))
      c.fail(errors::kInvalidAttribute,
             fmt::format("attribute 'softmax_precision' is {}, not a float type", precision));
  }
}

void lower_attention(OpContext& c) {
  ir::Lowering& l = c.lowering();
  check_form(c);
  const bool flat = c.rank(kQuery) == 3;
  AttentionOperands a;
  a.query = flat ? split_heads(c, c.input(kQuery), "q_num_heads") : c.input(kQuery);
  a.key = flat ? split_heads(c, c.input(kKey), "kv_num_heads") : c.input(kKey);
  a.value = flat ? split_heads(c, c.input(kValue), "kv_num_heads") : c.input(kValue);
  if (c.has_input(kPastKey)) {
    if (c.rank(kPastKey) != 4 || c.rank(kPastValue) != 4)
      c.fail(errors::kShapeMismatch, "a past must have rank 4");
    a.first_query = c.size(kPastKey, 2);
    a.key = l.concat({c.input(kPastKey), a.key}, 2);
    a.value = l.concat({c.input(kPastValue), a.value}, 2);
  }
  // The caches are results as well: computed once.
  l.mark_reuse(a.key, 2);
  l.mark_reuse(a.value, 2);
  if (c.has_output(kPresentKey)) c.set_output(kPresentKey, a.key);
  if (c.has_output(kPresentValue)) c.set_output(kPresentValue, a.value);

  const Expr size = a.query.sizes()[3];
  if (c.has_attribute("scale")) {
    a.scale = static_cast<double>(c.float_attribute("scale", 1));
  } else if (size.is_constant() && size.constant() > 0) {
    a.scale = 1 / std::sqrt(static_cast<double>(size.constant()));
  } else if (!size.is_constant(0)) {
    c.fail(errors::kUnknownShape,
           fmt::format("the scale depends on a head size of {}, which is not known", to_string(size)),
           "give the attribute 'scale'");
  }
  const double softcap = static_cast<double>(c.float_attribute("softcap", 0));
  a.softcap = softcap > 0 ? softcap : 0;
  if (c.has_input(kMask)) a.mask = padded_mask(c, c.input(kMask), a.key.sizes()[2]);
  if (c.has_input(kValidKeys)) {
    a.valid_keys = c.input(kValidKeys);
    a.first_query_of_row =
        l.pointwise({c.input(kValidKeys)}, [&](BodyBuilder& b, std::span<const ValueId> v) {
          return b.binary(OpCode::sub, b.cast(v[0], DType::i64), b.index(a.query.sizes()[2]));
        });
  }
  a.causal = c.int_attribute("is_causal", 0) != 0;
  const std::int64_t left = c.int_attribute("left_window_size", -1),
                     right = c.int_attribute("right_window_size", -1);
  if (left < -1 || right < -1)
    c.fail(errors::kInvalidAttribute,
           fmt::format("the window sizes are {} and {}; at least -1", left, right));
  if (left >= 0) a.before = Expr(left);
  if (right >= 0) a.after = Expr(right);
  if (!a.causal && !a.before && !a.after) a.first_query_of_row.reset();

  TensorBox y;
  if (c.has_output(kScores)) {
    const AttentionScores s = spell_out_attention(c, std::move(a));
    const TensorBox* const stages[] = {&s.product, &s.capped, &s.masked, &s.weights};
    c.set_output(kScores, l.cast(*stages[c.int_attribute("qk_matmul_output_mode", 0)], c.dtype(kQuery)));
    y = s.result;
  } else {
    y = attend(c, std::move(a));
  }
  if (flat) {
    y = l.permute(y, {0, 2, 1, 3});
    y = l.reshape(y, {y.sizes()[0], y.sizes()[1], y.sizes()[2] * y.sizes()[3]});
  }
  c.set_output(kResult, y);
}

}  // namespace

std::span<const OpSpec> attention_ops() {
  static const OpSpec ops[] = {
      {"", "Attention", 23, kNewestOpset, kFloats, lower_attention,
       work::attention({.key = 1, .past = 4, .causal = "is_causal", .window = "left_window_size"}),
       rule::kAttention, carries({{1, 4}, {2, 5}}), kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
