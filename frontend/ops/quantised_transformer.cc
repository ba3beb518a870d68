// QAttention and QEmbedLayerNormalization of com.microsoft: parts of quantised BERT and GPT-2 models.
#include <cmath>
#include <limits>

#include "frontend/ops/index.h"
#include "frontend/ops/operand_sizes.h"
#include "frontend/ops/quantised.h"
#include "frontend/ops/statistics.h"
#include "frontend/schemas.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

void require_size(OpContext& c, const char* what, Expr size, Expr expected) {
  if (size.is_constant() && expected.is_constant() && !(size == expected)) {
    c.fail(errors::kShapeMismatch,
           fmt::format("{} has size {}, expected {}", what, to_string(size), to_string(expected)));
  }
  c.lowering().require_equal(size, expected);
}

void require_rank(OpContext& c, int k, const char* what, int rank) {
  if (c.rank(k) != rank)
    c.fail(errors::kShapeMismatch, fmt::format("{} has rank {}, expected {}", what, c.rank(k), rank));
}

// Queries, keys and values are the columns of one product of integers. Inputs: input, weight, bias, their
// scales, mask index, zero points of input and weight, past.
class Attention {
 public:
  explicit Attention(OpContext& c) : c_(c), l_(c.lowering()) {}

  void lower() {
    require_rank(c_, 0, "the input", 3);
    require_rank(c_, 1, "the weights", 2);
    require_rank(c_, 2, "the bias", 1);
    heads_ = c_.int_attribute("num_heads");
    if (c_.int_attribute("do_rotary", 0) != 0)
      c_.fail(errors::kUnsupportedForm, "attribute 'do_rotary' is set",
              "export RotaryEmbedding as nodes of its own");
    const Expr columns = c_.size(1, 1);
    if (!columns.is_constant())
      c_.fail(errors::kUnsupportedForm,
              fmt::format("the weights have '{}' columns, which must be known", to_string(columns)));
    if (heads_ < 1 || heads_ > columns.constant() || columns.constant() % (3 * heads_) != 0)
      c_.fail(errors::kInvalidAttribute,
              fmt::format("attribute 'num_heads' is {}, but the weights have {} columns", heads_,
                          columns.constant()));
    width_ = columns.constant() / (3 * heads_);
    require_size(c_, "the last axis of the input", c_.size(0, 2), c_.size(1, 0));
    require_size(c_, "the bias", c_.size(2, 0), columns);
    batch_ = c_.size(0, 0);
    length_ = c_.size(0, 1);
    const TensorBox all = projected();
    const TensorBox query = part(all, 0);
    TensorBox key = part(all, 1), value = part(all, 2);
    if (c_.has_input(8)) {
      require_rank(c_, 8, "the past", 5);
      const std::vector<Expr>& past = c_.sizes(8);
      require_size(c_, "axis 0 of the past", past[0], 2);
      require_size(c_, "axis 1 of the past", past[1], batch_);
      require_size(c_, "axis 2 of the past", past[2], heads_);
      require_size(c_, "axis 4 of the past", past[4], width_);
      past_ = past[3];
      const auto of_past = [&](int k) { return l_.squeeze(l_.slice(c_.input(8), 0, k, 1), 0); };
      key = l_.concat({of_past(0), key}, 2);
      value = l_.concat({of_past(1), value}, 2);
    }
    if (c_.has_output(1)) c_.set_output(1, l_.concat({l_.unsqueeze(key, 0), l_.unsqueeze(value, 0)}, 0));
    const TensorBox product = l_.matmul(query, l_.permute(key, {0, 1, 3, 2}));
    const TensorBox scores = masked(product);
    l_.mark_reuse(scores, 2);
    const TensorBox powers = unary(
        l_, OpCode::exp, binary(l_, OpCode::sub, scores, l_.reduce(scores, ir::ReduceKind::max, {3}, true)));
    l_.mark_reuse(powers, 2);
    const TensorBox weights =
        binary(l_, OpCode::div, powers, l_.reduce(powers, ir::ReduceKind::sum, {3}, true));
    const TensorBox y = l_.permute(l_.matmul(weights, value), {0, 2, 1, 3});
    c_.set_output(0, l_.cast(l_.reshape(y, {batch_, length_, heads_ * width_}), c_.dtype(3)));
  }

 private:
  TensorBox projected() {
    const TensorBox x = centred(l_, c_.input(0), one_zero(c_, 6, c_.dtype(0)));
    if (!kQuantisedBytes.contains(c_.dtype(1)))
      c_.fail(errors::kUnsupportedType,
              fmt::format("the weights are {}, expected i8 or u8", to_string(c_.dtype(1))));
    std::optional<TensorBox> zero;
    if (c_.has_input(7)) {
      require_zero_type(c_, 7, c_.dtype(1));
      const TensorBox box = each_column(7, "the zero point of the weights");
      if (!is_absent_or_zero(c_, 7)) zero = l_.cast(box, DType::i32);
    }
    check_scale(c_, 4);
    const TensorBox sums = l_.matmul(x, centred(l_, c_.input(1), zero));
    const TensorBox factor = l_.realize(binary(
        l_, OpCode::mul, one_scale(c_, 3), l_.cast(each_column(4, "the scale of the weights"), DType::f32)));
    return l_.realize(binary(l_, OpCode::add, scaled(l_, sums, factor), l_.cast(c_.input(2), DType::f32)));
  }

  TensorBox each_column(int k, const char* what) {
    const std::vector<Expr>& sizes = c_.sizes(k);
    if (sizes.empty() || (sizes.size() == 1 && sizes[0].is_constant(1))) return one_element(c_, k, what);
    require_rank(c_, k, what, 1);
    require_size(c_, what, sizes[0], c_.size(1, 1));
    return c_.input(k);
  }

  // Queries, keys or values as [batch, heads, length, width].
  TensorBox part(const TensorBox& all, std::int64_t k) {
    const TensorBox columns = l_.slice(all, 2, k * heads_ * width_, heads_ * width_);
    return l_.permute(l_.reshape(columns, {batch_, length_, heads_, width_}), {0, 2, 1, 3});
  }

  // Whether key `at[3]` of query `at[2]` is seen, in i64 or bool; nullopt: no mask.
  std::optional<ValueId> seen(BodyBuilder& b, std::span<const Expr> at, const TensorBox& mask) {
    const auto positive = [&](ValueId v) { return b.binary(OpCode::gt, v, b.constant_of(b.dtype(v), 0)); };
    const Expr total = past_ + length_;
    if (mask.rank() == 1) {
      // The number of keys of each sequence; twice as many numbers: ends, then beginnings.
      const ValueId key = b.index(at[3], mask.dtype());
      const std::vector<Expr> end{at[0]}, begin{at[0] + batch_};
      ValueId inside = b.binary(OpCode::lt, key, l_.load(b, mask, end));
      if (mask.sizes()[0] == batch_ * 2)
        inside = b.binary(OpCode::logical_and, inside, b.binary(OpCode::ge, key, l_.load(b, mask, begin)));
      return inside;
    }
    if (mask.rank() == 2) {
      require_size(c_, "axis 1 of the mask", mask.sizes()[1], total);
      const std::vector<Expr> index{at[0], at[3]};
      return positive(l_.load(b, mask, index));
    }
    require_size(c_, "axis 1 of the mask", mask.sizes()[1], length_);
    require_size(c_, "axis 2 of the mask", mask.sizes()[2], total);
    const std::vector<Expr> index{at[0], at[2], at[3]};
    return positive(l_.load(b, mask, index));
  }

  TensorBox masked(const TensorBox& product) {
    const double scale = 1 / std::sqrt(static_cast<double>(width_));
    const double hidden = c_.float_attribute("mask_filter_value", -10000);
    const bool causal = c_.int_attribute("unidirectional", 0) != 0;
    std::optional<TensorBox> mask;
    if (c_.has_input(5)) {
      mask = c_.input(5);
      if (mask->rank() < 1 || mask->rank() > 3)
        c_.fail(errors::kUnsupportedForm, fmt::format("the mask has rank {}, expected 1 to 3", mask->rank()));
      const Expr rows = mask->sizes()[0];
      if (mask->rank() != 1 || !(rows == batch_ * 2)) require_size(c_, "axis 0 of the mask", rows, batch_);
    }
    return l_.generate(product.sizes(), [&](BodyBuilder& b, std::span<const Expr> at) {
      ValueId score = b.binary(OpCode::mul, l_.load(b, product, at), b.constant_of(DType::f32, scale));
      if (mask) {
        const ValueId visible = *seen(b, at, *mask);
        score = b.binary(OpCode::add, score,
                         b.where(visible, b.constant_of(DType::f32, 0), b.constant_of(DType::f32, hidden)));
      }
      if (!causal) return score;
      const ValueId past = b.binary(OpCode::le, b.index(at[3]), b.index(at[2] + past_));
      return b.where(past, score, b.constant_of(DType::f32, std::numeric_limits<float>::lowest()));
    });
  }

  OpContext& c_;
  ir::Lowering& l_;
  std::int64_t heads_ = 1, width_ = 1;
  Expr batch_ = 0, length_ = 0, past_ = 0;
};

void lower_quantised_attention(OpContext& c) { Attention(c).lower(); }

// Inputs: ids, segments, tables of words, positions and segments, gamma, beta, mask, then scales and zero
// points of the five tables.
void lower_embedding(OpContext& c) {
  ir::Lowering& l = c.lowering();
  require_rank(c, 0, "the ids", 2);
  constexpr int kWord = 2, kPosition = 3, kSegment = 4, kGamma = 5, kBeta = 6, kMask = 7, kScales = 8,
                kZeros = 13;
  const auto table = [&](int k, const char* what, int rank) {
    require_rank(c, k, what, rank);
    return dequantised(c, {k, k - kWord + kScales, k - kWord + kZeros});
  };
  const TensorBox ids = c.input(0), words = table(kWord, "the table of words", 2),
                  positions = table(kPosition, "the table of positions", 2);
  const Expr batch = ids.sizes()[0], length = ids.sizes()[1], hidden = words.sizes()[1];
  require_size(c, "the width of the positions", positions.sizes()[1], hidden);
  l.require_at_most(length, positions.sizes()[0]);
  std::optional<TensorBox> segments, segment_table;
  if (c.has_input(1)) {
    require_rank(c, 1, "the segments", 2);
    segments = c.input(1);
    segment_table = table(kSegment, "the table of segments", 2);
    require_size(c, "the width of the segments", segment_table->sizes()[1], hidden);
    require_size(c, "axis 0 of the segments", segments->sizes()[0], batch);
    require_size(c, "axis 1 of the segments", segments->sizes()[1], length);
  }
  const std::vector<Expr> sizes{batch, length, hidden};
  const TensorBox sum = l.realize(l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    const auto row = [&](const TensorBox& of, const TensorBox& index) {
      const Expr r = checked_index(b, l.load(b, index, at.subspan(0, 2)), of.sizes()[0], sizes);
      const std::vector<Expr> source{r, at[2]};
      return l.load(b, of, source);
    };
    const std::vector<Expr> position{at[1], at[2]};
    ValueId y = b.binary(OpCode::add, row(words, ids), l.load(b, positions, position));
    if (segments) y = b.binary(OpCode::add, y, row(*segment_table, *segments));
    return y;
  }));
  const TensorBox gamma = table(kGamma, "gamma", 1), beta = table(kBeta, "beta", 1);
  require_size(c, "gamma", gamma.sizes()[0], hidden);
  require_size(c, "beta", beta.sizes()[0], hidden);
  const TensorBox n = normalized(l, sum, {2}, c.float_attribute("epsilon", 1e-12f)).value;
  c.set_output(0, binary(l, OpCode::add, binary(l, OpCode::mul, n, gamma), beta));
  if (!c.has_output(1)) return;
  if (!c.has_input(kMask)) return c.set_output(1, l.full({batch}, DType::i32, 0));
  require_rank(c, kMask, "the mask", 2);
  c.set_output(1, l.reduce(l.cast(c.input(kMask), DType::i32), ir::ReduceKind::sum, {1}, false));
}

}  // namespace

std::span<const OpSpec> quantised_transformer_ops() {
  static const OpSpec ops[] = {
      {kMicrosoftDomain, "QAttention", 1, 1, kQuantisedBytes, lower_quantised_attention,
       work::spelled_attention({.weights = 1, .past = 8}), rule::kQuantisedAttention, kNoState, kNoSizes},
      {kMicrosoftDomain, "QEmbedLayerNormalization", 1, 1, TypeSet{DType::i32}, lower_embedding,
       work::reduction_of_result(84).looking_up(), rule::kQuantisedEmbedding, kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
