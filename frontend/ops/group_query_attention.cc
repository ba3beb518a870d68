// GroupQueryAttention of com.microsoft: causal attention in which several query heads share a key head, with
// caches in which every row of the batch has its own length.
#include <limits>

#include "frontend/ops/attention.h"
#include "frontend/ops/heads.h"
#include "frontend/ops/operand_sizes.h"
#include "frontend/ops/padding_mask.h"
#include "frontend/ops/statistics.h"
#include "frontend/schemas.h"
#include "ir/coordinate.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

// clang-format off
enum Input { query, key, value, past_key, past_value, last_keys, total_length, cos, sin, position_ids,
             score_bias, head_sink, key_scale, value_scale, query_norm, key_norm };
// clang-format on

void refuse_unsupported(OpContext& c) {
  for (const char* name : {"k_quant_type", "v_quant_type"}) {
    const std::string kind = c.string_attribute(name, "NONE");
    if (kind != "NONE") {
      c.fail(errors::kUnsupportedForm,
             fmt::format("attribute '{}' is '{}': quantised caches are not supported", name, kind));
    }
  }
  if (c.has_input(key_scale) || c.has_input(value_scale) || c.int_attribute("kv_cache_bit_width", 0) != 0)
    c.fail(errors::kUnsupportedForm, "quantised caches are not supported");
  if (c.int_attribute("sliding_window_cache", 0) != 0)
    c.fail(errors::kUnsupportedForm,
           "attribute 'sliding_window_cache' is 1: caches that drop keys are not supported");
  if (c.int_attribute("qk_output", 0) != 0 || c.has_output(3))
    c.fail(errors::kUnsupportedForm, "output 3 (the scores) is not supported");
}

class GroupQuery {
 public:
  explicit GroupQuery(OpContext& c)
      : c_(c),
        l_(c.lowering()),
        heads_(positive_attribute(c, "num_heads")),
        key_heads_(positive_attribute(c, "kv_num_heads")) {
    if (heads_ % key_heads_ != 0) {
      c.fail(errors::kInvalidAttribute,
             fmt::format("attribute 'kv_num_heads' is {}, which does not divide the {} heads of the query",
                         key_heads_, heads_));
    }
    refuse_unsupported(c);
  }

  void lower() {
    project();
    batch_ = a_.query.sizes()[0];
    length_ = a_.query.sizes()[2];
    read_lengths();
    normalise_heads();
    rotate();
    update_caches();
    mask();
    if (!sinks()) return c_.set_output(0, join_heads(c_, attend(c_, a_)));
    // A sink is one more logit in the sum of exponentials: it scales the result by s / (s + exp(sink)) =
    // sigmoid(log s - sink).
    const DType type = c_.dtype(query);
    a_.query = l_.cast(a_.query, compute_type(type));
    const AttentionScores scores = spell_out_attention(c_, a_);
    c_.set_output(
        0,
        join_heads(c_, l_.cast(binary(l_, OpCode::mul, scores.result, share_of_keys(scores.masked)), type)));
  }

 private:
  void project() {
    require_rank(c_, query, {3});
    if (c_.has_input(key) != c_.has_input(value))
      c_.fail(errors::kInvalidNode, "inputs 1 (key) and 2 (value) must be given together");
    const std::int64_t hidden = known_size(c_, c_.size(query, 2), "the hidden size");
    if (!c_.has_input(key)) {
      const std::int64_t all = heads_ + 2 * key_heads_;
      if (hidden % all != 0) {
        c_.fail(errors::kShapeMismatch,
                fmt::format("the packed hidden size {} is not divisible by {} heads of query, key and value",
                            hidden, all));
      }
      const TensorBox packed = split_heads(c_, c_.input(query), all);
      a_.query = l_.slice(packed, 1, 0, heads_);
      a_.key = l_.slice(packed, 1, heads_, key_heads_);
      a_.value = l_.slice(packed, 1, heads_ + key_heads_, key_heads_);
      return;
    }
    a_.query = split_heads(c_, c_.input(query), heads_);
    const std::vector<Expr>& s = c_.sizes(query);
    require_sizes(c_, key, {s[0], s[1], hidden / heads_ * key_heads_},
                  "(batch, sequence, hidden size of the key)");
    require_sizes(c_, value, {s[0], s[1], hidden / heads_ * key_heads_},
                  "(batch, sequence, hidden size of the value)");
    a_.key = split_heads(c_, c_.input(key), key_heads_);
    a_.value = split_heads(c_, c_.input(value), key_heads_);
  }

  // One number per row: the position of its last valid key.
  void read_lengths() {
    require_rank(c_, last_keys, {1, 2});
    if (c_.rank(last_keys) == 2) {
      require_sizes(c_, last_keys, {batch_, 1}, "(batch, 1)");
    } else {
      require_sizes(c_, last_keys, {batch_}, "(batch)");
    }
    if (!ir::numel(c_.sizes(total_length)).is_constant(1))
      c_.fail(errors::kShapeMismatch, "input 6 (total_sequence_length) must have one element");
    if (c_.has_input(past_key) != c_.has_input(past_value))
      c_.fail(errors::kInvalidNode, "the past of key and value, inputs 3 and 4, must be given together");
    if (const std::optional<Elements>& known = elements_of(c_.value(total_length));
        known && !ir::depends_on_rank(known->values[0]))
      total_ = known->values[0];
  }

  ValueId valid_keys(BodyBuilder& b, const Expr& row) {
    std::vector<Expr> at = {row};
    if (c_.rank(last_keys) == 2) at.emplace_back(0);
    const ValueId last = b.cast(l_.load(b, c_.input(last_keys), at), DType::i64);
    return b.binary(OpCode::add, last, b.constant(DType::i64, std::int64_t{1}));
  }

  // Returns the position where the new keys of a row begin. A first prompt begins at 0, and may end with
  // padding.
  ValueId begin(BodyBuilder& b, const Expr& row) {
    const ValueId zero = b.constant(DType::i64, std::int64_t{0});
    if (!c_.has_input(past_key)) return zero;
    return b.binary(OpCode::max, b.binary(OpCode::sub, valid_keys(b, row), b.index(length_)), zero);
  }

  // Each head of query and key divided by the root of its mean square, as some models do before rotation.
  void normalise_heads() {
    if (!c_.has_input(query_norm) && !c_.has_input(key_norm)) return;
    if (!c_.has_input(query_norm) || !c_.has_input(key_norm))
      c_.fail(errors::kInvalidNode,
              "inputs 14 (q_norm_weight) and 15 (k_norm_weight) must be given together");
    const auto normalised = [&](TensorBox& x, int weight) {
      require_sizes(c_, weight, {x.sizes()[3]}, "the head size");
      const DType type = x.dtype();
      const TensorBox wide = l_.cast(x, compute_type(type));
      l_.mark_reuse(wide, 2);
      const TensorBox inverse =
          inverse_deviation(l_, wide, {3}, c_.float_attribute("qk_norm_epsilon", 1e-6f));
      const TensorBox scaled = binary(l_, OpCode::mul, binary(l_, OpCode::mul, wide, inverse),
                                      l_.cast(c_.input(weight), compute_type(type)));
      x = l_.cast(scaled, type);
    };
    normalised(a_.query, query_norm);
    normalised(a_.key, key_norm);
  }

  void rotate() {
    if (c_.int_attribute("do_rotary", 0) == 0) return;
    if (!c_.has_input(cos) || !c_.has_input(sin))
      c_.fail(errors::kInvalidNode,
              "attribute 'do_rotary' is 1, which requires inputs 7 (cos_cache) and 8 (sin_cache)");
    require_rank(c_, cos, {2});
    require_sizes(c_, sin, c_.sizes(cos), "(positions, half of the rotated elements)");
    if (c_.has_input(position_ids)) require_sizes(c_, position_ids, {batch_, length_}, "(batch, sequence)");
    Rotation r{c_.input(cos), c_.input(sin), c_.int_attribute("rotary_interleaved", 0) != 0};
    r.row = [&](BodyBuilder& b, const Expr& row, const Expr& step) {
      if (!c_.has_input(position_ids)) return b.binary(OpCode::add, begin(b, row), b.index(step));
      // A first prompt counts on from the very first position.
      const auto given = [&](const Expr& at_row, const Expr& at_step) {
        return b.cast(l_.load(b, c_.input(position_ids), std::vector<Expr>{at_row, at_step}), DType::i64);
      };
      const ValueId total = total_ ? b.index(*total_) : only_element(c_, b, total_length);
      const ValueId counted = b.binary(OpCode::add, given(0, 0), b.index(step));
      if (total_ && *total_ == length_) return counted;
      return b.where(b.binary(OpCode::eq, total, b.index(length_)), counted, given(row, step));
    };
    a_.query = rotated(c_, a_.query, r);
    a_.key = rotated(c_, a_.key, r);
  }

  // Returns the number of positions of the present caches: that of the past ones if these have room, else
  // that of the valid ones.
  Expr capacity() {
    const Expr past = c_.size(past_key, 2);
    if (total_) return ir::max(past, *total_);
    if (!c_.has_output(1) && !c_.has_output(2)) return past + length_;
    c_.fail_unknown(total_length, errors::kDataDependentSize,
                    fmt::format("input 6 (total_sequence_length), '{}', decides the size of the caches, but "
                                "its value is known only "
                                "at run time",
                                c_.value(total_length).name),
                    "make it a constant, or compute it from the size of an input");
  }

  void update_caches() {
    if (c_.has_input(past_key)) {
      const std::vector<Expr> own = a_.key.sizes();
      for (const int k : {past_key, past_value}) {
        require_rank(c_, k, {4});
        require_sizes(c_, k, {own[0], own[1], c_.size(past_key, 2), own[3]},
                      "(batch, key heads, past, head size)");
      }
      const Expr size = capacity();
      const auto first = [&](BodyBuilder& b, const Expr& row) { return begin(b, row); };
      a_.key = write_cache(c_, c_.input(past_key), a_.key, size, first);
      a_.value = write_cache(c_, c_.input(past_value), a_.value, size, first);
    }
    if (c_.has_output(1)) c_.set_output(1, a_.key);
    if (c_.has_output(2)) c_.set_output(2, a_.value);
    for (const TensorBox* x : {&a_.key, &a_.value}) l_.mark_reuse(*x, 2);
  }

  void mask() {
    const auto of_row = [&](ValueId (GroupQuery::*number)(BodyBuilder&, const Expr&)) {
      return l_.generate({batch_},
                         [&](BodyBuilder& b, std::span<const Expr> at) { return (this->*number)(b, at[0]); });
    };
    a_.scale = score_scale(c_, a_.query.sizes()[3]);
    a_.softcap = c_.float_attribute("softcap", 0);
    if (a_.softcap < 0)
      c_.fail(errors::kInvalidAttribute,
              fmt::format("attribute 'softcap' is {}, expected at least 0", a_.softcap));
    a_.valid_keys = of_row(&GroupQuery::valid_keys);
    a_.first_query = 0;
    a_.causal = c_.int_attribute("causal", 1) != 0;
    if (a_.causal && c_.has_input(past_key)) a_.first_query_of_row = of_row(&GroupQuery::begin);
    const std::int64_t window = c_.int_attribute("local_window_size", -1);
    if (window < -1)
      c_.fail(errors::kInvalidAttribute,
              fmt::format("attribute 'local_window_size' is {}, expected -1 or more", window));
    if (window >= 0 && !a_.causal)
      c_.fail(errors::kInvalidAttribute,
              "attribute 'local_window_size' requires that attribute 'causal' is 1");
    if (window >= 0) a_.window = window;
    if (c_.has_input(score_bias)) {
      const MaskedSpace space{batch_, heads_, length_, a_.key.sizes()[2], 0, true};
      a_.mask = attention_bias(c_, score_bias, space);
    }
  }

  bool sinks() {
    const bool smooth = c_.int_attribute("smooth_softmax", -1) > 0;
    if (!c_.has_input(head_sink)) return smooth;
    if (smooth)
      c_.fail(errors::kInvalidAttribute,
              "attribute 'smooth_softmax' is 1, but there is an input 11 (head_sink)");
    require_sizes(c_, head_sink, {heads_}, "one number per head of the query");
    return true;
  }

  // Returns the share of the keys in the sum of exponentials with the sink, [batch, heads, queries, 1].
  TensorBox share_of_keys(const TensorBox& scores) {
    const TensorBox most = l_.reduce(scores, ir::ReduceKind::max, {3}, true);
    const DType type = scores.dtype();
    constexpr double kNone = -std::numeric_limits<double>::infinity();
    const TensorBox sum =
        l_.reduce(l_.pointwise({scores, most},
                               [&](BodyBuilder& b, std::span<const ValueId> v) {
                                 // In a row without keys, -inf - -inf would be NaN.
                                 return b.where(b.binary(OpCode::eq, v[0], b.constant_of(type, kNone)),
                                                b.constant_of(type, 0),
                                                b.unary(OpCode::exp, b.binary(OpCode::sub, v[0], v[1])));
                               }),
                  ir::ReduceKind::sum, {3}, true);
    TensorBox sink = l_.scalar(type, 0);
    if (c_.has_input(head_sink)) sink = l_.reshape(l_.cast(c_.input(head_sink), type), {heads_, 1, 1});
    return l_.pointwise({most, sum, sink}, [&](BodyBuilder& b, std::span<const ValueId> v) {
      const ValueId logarithm = b.binary(OpCode::add, v[0], b.unary(OpCode::log, v[1]));
      return b.unary(OpCode::sigmoid, b.binary(OpCode::sub, logarithm, v[2]));
    });
  }

  OpContext& c_;
  ir::Lowering& l_;
  std::int64_t heads_, key_heads_;
  Expr batch_ = 0, length_ = 0;
  std::optional<Expr> total_;
  AttentionOperands a_;
};

void lower_group_query_attention(OpContext& c) { GroupQuery(c).lower(); }

constexpr TypeSet kTypes = {DType::f32, DType::f16, DType::bf16};

}  // namespace

std::span<const OpSpec> group_query_attention_ops() {
  static const OpSpec ops[] = {
      {kMicrosoftDomain, "GroupQueryAttention", 1, 1, kTypes, lower_group_query_attention,
       work::attention({.key = 1,
                        .past = 3,
                        .causal = "causal",
                        .causal_unless_said = true,
                        .window = "local_window_size"}),
       rule::kGroupQueryAttention, carries({{1, 3}, {2, 4}}), kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
