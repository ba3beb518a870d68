// LinearRegressor and LinearClassifier: a product, and what makes labels and scores of it.
#include <array>

#include "frontend/ops/class_scores.h"
#include "frontend/ops/constant_input.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

constexpr TypeSet kLinearInputs = {DType::f32, DType::f64, DType::i32, DType::i64};

std::vector<double> float_list(OpContext& c, const char* name) {
  const std::vector<float> values = c.floats_attribute(name).value_or(std::vector<float>());
  return {values.begin(), values.end()};
}

// x * coefficients^T + intercepts: [n, targets], in f32 as ONNX Runtime computes it.
TensorBox linear_scores(OpContext& c, std::int64_t targets) {
  ir::Lowering& l = c.lowering();
  const std::vector<double> coefficients = float_list(c, "coefficients"),
                            intercepts = float_list(c, "intercepts");
  const auto count = static_cast<std::int64_t>(coefficients.size());
  if (targets < 1 || count == 0 || count % targets != 0)
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute 'coefficients' has {} elements for {} targets", count, targets));
  if (!intercepts.empty() && static_cast<std::int64_t>(intercepts.size()) != targets)
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute 'intercepts' has {} elements for {} targets", intercepts.size(), targets));
  const std::int64_t features = count / targets;
  const TensorBox x = feature_rows(c, DType::f32);
  l.require_equal(x.sizes()[1], features);
  const TensorBox weights = l.permute(
      constant_table(c, c.op_type() + "_coefficients", DType::f32, {targets, features}, coefficients),
      {1, 0});
  const TensorBox product = l.matmul(x, weights);
  if (intercepts.empty()) return product;
  return binary(l, OpCode::add, product,
                constant_table(c, c.op_type() + "_intercepts", DType::f32, {targets}, intercepts));
}

// A single target gets no post transform but PROBIT.
void lower_linear_regressor(OpContext& c) {
  const std::int64_t targets = c.int_attribute("targets", 1);
  const PostTransform transform = post_transform_of(c);
  const TensorBox scores = linear_scores(c, targets);
  const bool applies = targets > 1 || transform == PostTransform::probit;
  c.set_output(0, applies ? transformed(c.lowering(), scores, transform) : scores);
}

// One score for two classes: that of the second.
void set_two_classes(OpContext& c, const ClassLabels& labels, const TensorBox& scores,
                     PostTransform transform) {
  ir::Lowering& l = c.lowering();
  if (transform == PostTransform::probit)
    c.fail(errors::kUnsupportedForm, "the score of the first of two classes is not defined",
           "convert the model with coefficients for both classes, or without PROBIT");
  l.mark_reuse(scores, 2);
  c.set_output(0, l.generate({scores.sizes()[0]}, [&](BodyBuilder& b, std::span<const Expr> at) {
    const Real score{&b, l.load(b, scores, std::array<Expr, 2>{at[0], 0})};
    return b.where(literal(score, 0) < score, b.constant(DType::i64, labels.numbers[1]),
                   b.constant(DType::i64, labels.numbers[0]));
  }));
  c.set_output(1, l.generate({scores.sizes()[0], 2}, [&](BodyBuilder& b, std::span<const Expr> at) {
    const Real score{&b, l.load(b, scores, std::array<Expr, 2>{at[0], 0})};
    const bool logistic_scores = transform == PostTransform::logistic;
    const Real second = logistic_scores ? logistic(score) : score;
    const Real first = logistic_scores ? logistic(literal(score, 0) - score) : 1 - score;
    return select(b.binary(OpCode::eq, b.index(at[1]), b.constant(DType::i64, std::int64_t{0})), first,
                  second)
        .v;
  }));
}

void lower_linear_classifier(OpContext& c) {
  const ClassLabels labels = class_labels(c, "classlabels_ints", "classlabels_strings");
  const auto classes = static_cast<std::int64_t>(labels.numbers.size());
  const PostTransform transform = post_transform_of(c);
  const std::size_t intercepts = float_list(c, "intercepts").size();
  const auto targets = intercepts == 0 ? classes : static_cast<std::int64_t>(intercepts);
  if (targets != classes && !(targets == 1 && classes == 2))
    c.fail(errors::kInvalidAttribute, fmt::format("{} scores for {} classes", targets, classes));
  if (classes < 2) c.fail(errors::kUnsupportedForm, "a classifier of a single class", "give it two labels");
  const TensorBox scores = linear_scores(c, targets);
  if (targets == 1) return set_two_classes(c, labels, scores, transform);
  c.lowering().mark_reuse(scores, 2);
  c.set_output(0, labelled(c, labels, largest_class(c.lowering(), scores)));
  c.set_output(1, transformed(c.lowering(), scores, transform));
}

}  // namespace

std::span<const OpSpec> linear_model_ops() {
  static constexpr const char* kSmall = "linear models are small: their coefficients are attributes";
  static const OpSpec ops[] = {
      {kMlDomain, "LinearClassifier", 1, kNewestMl, kLinearInputs, lower_linear_classifier,
       work::attribute_product(), sharding::replicated(kSmall), kNoState, kNoSizes},
      {kMlDomain, "LinearRegressor", 1, kNewestMl, kLinearInputs, lower_linear_regressor,
       work::attribute_product(), sharding::replicated(kSmall), kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
