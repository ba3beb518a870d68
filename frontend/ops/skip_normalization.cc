// Normalisations of com.microsoft after a residual and a bias, or after the embeddings of tokens. Everything
// is computed in f32 and rounded once.
#include "frontend/ops/operand_sizes.h"
#include "frontend/ops/statistics.h"
#include "frontend/schemas.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

TensorBox wide(OpContext& c, int k) { return c.lowering().cast(c.input(k), compute_type(c.dtype(k))); }

// A vector with one number per element of the last axis of input 0.
TensorBox per_element(OpContext& c, int k, const Expr& hidden) {
  require_sizes(c, k, {hidden}, "the size of the last axis");
  return wide(c, k);
}

// The sum of input, skip and, if there is one, bias.
TensorBox skip_sum(OpContext& c, int bias) {
  ir::Lowering& l = c.lowering();
  require_rank(c, 0, {2, 3});
  const std::vector<Expr>& sizes = c.sizes(0);
  // The skip may be the same for the whole batch.
  require_rank(c, 1, {2, 3});
  std::vector<Expr> expected = sizes;
  if (c.rank(1) < c.rank(0)) expected.erase(expected.begin());
  if (c.rank(1) == 3 && c.size(1, 0).is_constant(1)) expected[0] = 1;
  require_sizes(c, 1, expected, "(batch or 1, sequence, hidden size)");
  TensorBox sum = binary(l, OpCode::add, wide(c, 0), wide(c, 1));
  if (c.has_input(bias)) sum = binary(l, OpCode::add, sum, per_element(c, bias, sizes.back()));
  return sum;
}

double epsilon(OpContext& c) {
  const float value = c.float_attribute("epsilon", 1e-12f);
  if (value < 0)
    c.fail(errors::kInvalidAttribute, fmt::format("attribute 'epsilon' is {}, expected at least 0", value));
  return value;
}

void lower_skip_layer_normalization(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const TensorBox sum = skip_sum(c, 4);
  const int last = c.rank(0) - 1;
  const Expr hidden = c.size(0, -1);
  l.mark_reuse(sum, 4);
  const Normalized n = normalized(l, sum, {last}, epsilon(c));
  TensorBox y = binary(l, OpCode::mul, n.value, per_element(c, 2, hidden));
  if (c.has_input(3)) y = binary(l, OpCode::add, y, per_element(c, 3, hidden));
  c.set_output(0, l.cast(y, c.dtype(0)));
  if (c.has_output(1)) c.set_output(1, n.mean);
  if (c.has_output(2)) c.set_output(2, n.inverse_deviation);
  if (c.has_output(3)) c.set_output(3, l.cast(sum, c.dtype(0)));
}

void lower_skip_simplified_layer_normalization(OpContext& c) {
  ir::Lowering& l = c.lowering();
  if (c.has_output(1))
    c.fail(errors::kUnsupportedForm, "output 1 (mean) is not defined: the mean is not subtracted");
  const TensorBox sum = skip_sum(c, 3);
  l.mark_reuse(sum, 3);
  const TensorBox inverse = inverse_deviation(l, sum, {c.rank(0) - 1}, epsilon(c));
  const TensorBox scale = per_element(c, 2, c.size(0, -1));
  c.set_output(0, l.cast(binary(l, OpCode::mul, binary(l, OpCode::mul, sum, inverse), scale), c.dtype(0)));
  if (c.has_output(2)) c.set_output(2, inverse);
  if (c.has_output(3)) c.set_output(3, l.cast(sum, c.dtype(0)));
}

// Rows of a table by token; an id out of range is an error of the step.
class Embeddings {
 public:
  explicit Embeddings(OpContext& c) : c_(c) {
    require_rank(c, 0, {2});
    for (const int k : {1, 7, 8}) {
      if (!c.has_input(k)) continue;
      std::vector<Expr> expected = c.sizes(0);
      if (k == 8 && c.rank(8) == 2 && c.size(8, 0).is_constant(1)) expected[0] = 1;
      require_sizes(c, k, expected, "(batch, sequence)");
    }
    require_rank(c, 2, {2});
    hidden_ = c.size(2, 1);
    for (const int table : {3, 4}) {
      if (c.has_input(table)) require_sizes(c, table, {c.size(table, 0), hidden_}, "(rows, hidden size)");
    }
    if (c.has_input(1) != c.has_input(4))
      c.fail(errors::kInvalidNode, "inputs 1 (segment_ids) and 4 (segment_embedding) must be given together");
  }

  const Expr& hidden() const { return hidden_; }

  TensorBox sum() {
    const std::vector<Expr> ids = c_.sizes(0);
    return c_.lowering().generate({ids[0], ids[1], hidden_}, [&](BodyBuilder& b, std::span<const Expr> at) {
      ValueId sum = row_of(b, at, 0, 2);
      sum = b.binary(OpCode::add, sum, c_.has_input(8) ? row_of(b, at, 8, 3) : position(b, at));
      return c_.has_input(4) ? b.binary(OpCode::add, sum, row_of(b, at, 1, 4)) : sum;
    });
  }

 private:
  ValueId element(BodyBuilder& b, int table, ValueId row, const Expr& column) {
    const ValueId checked = b.check_index(row, c_.size(table, 0));
    const ValueId v = c_.lowering().load(b, c_.input(table), std::vector<Expr>{b.as_index(checked), column});
    return b.cast(v, DType::f32);
  }
  ValueId row_of(BodyBuilder& b, std::span<const Expr> at, int ids, int table) {
    const Expr batch = c_.size(ids, 0).is_constant(1) ? Expr(0) : at[0];
    const ValueId id = c_.lowering().load(b, c_.input(ids), std::vector<Expr>{batch, at[1]});
    return element(b, table, b.cast(id, DType::i64), at[2]);
  }
  ValueId position(BodyBuilder& b, std::span<const Expr> at) { return element(b, 3, b.index(at[1]), at[2]); }

  OpContext& c_;
  Expr hidden_ = 0;
};

void lower_embed_layer_normalization(OpContext& c) {
  ir::Lowering& l = c.lowering();
  Embeddings embeddings(c);
  const TensorBox sum = embeddings.sum();
  l.mark_reuse(sum, 4);
  const Normalized n = normalized(l, sum, {2}, epsilon(c));
  TensorBox y = binary(l, OpCode::mul, n.value, per_element(c, 5, embeddings.hidden()));
  y = binary(l, OpCode::add, y, per_element(c, 6, embeddings.hidden()));
  c.set_output(0, l.cast(y, c.dtype(2)));
  if (c.has_output(2)) c.set_output(2, l.cast(sum, c.dtype(2)));
  if (!c.has_output(1)) return;
  if (!c.has_input(7)) return c.set_output(1, l.full({c.size(0, 0)}, DType::i32, 0));
  const TensorBox ones = l.pointwise({c.input(7)}, [](BodyBuilder& b, std::span<const ValueId> v) {
    return b.cast(b.binary(OpCode::eq, v[0], b.constant_of(DType::i32, 1)), DType::i32);
  });
  c.set_output(1, l.reduce(ones, ir::ReduceKind::sum, {1}, false));
}

constexpr TypeSet kTypes = {DType::f32, DType::f16, DType::bf16};

}  // namespace

std::span<const OpSpec> skip_normalization_ops() {
  static const OpSpec ops[] = {
      {kMicrosoftDomain, "EmbedLayerNormalization", 1, 1, TypeSet{DType::i32},
       lower_embed_layer_normalization, work::reduction_of_result(53).looking_up(), rule::kEmbedding,
       kNoState, kNoSizes},
      {kMicrosoftDomain, "SkipLayerNormalization", 1, 1, kTypes, lower_skip_layer_normalization,
       work::row_fold(40, 3), rule::kSkipNormalization, kNoState, kNoSizes},
      {kMicrosoftDomain, "SkipSimplifiedLayerNormalization", 1, 1, kTypes,
       lower_skip_simplified_layer_normalization, work::row_fold(27, 3), rule::kSkipNormalization, kNoState,
       kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
