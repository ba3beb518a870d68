// TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier: one call of the kernel `tree_ensemble`, and
// loops for what follows. Where ONNX leaves scores of two classes open, they are those of ONNX Runtime.
#include <array>
#include <set>

#include "frontend/ops/class_scores.h"
#include "frontend/ops/constant_input.h"
#include "frontend/ops/forest_sums.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

constexpr int kLastTrees = 4;  // of the operators that TreeEnsemble has replaced
constexpr TypeSet kTreeInputs = {DType::f32, DType::f64, DType::i32, DType::i64};

// ---- regression

ForestAggregate aggregate_by_name(OpContext& c) {
  const std::string name = c.string_attribute("aggregate_function", "SUM");
  if (name == "SUM") return ForestAggregate::sum;
  if (name == "AVERAGE") return ForestAggregate::average;
  if (name == "MIN") return ForestAggregate::min;
  if (name == "MAX") return ForestAggregate::max;
  c.fail(errors::kInvalidAttribute,
         fmt::format("attribute 'aggregate_function' is '{}', expected SUM, AVERAGE, MIN or MAX", name));
}

ForestAggregate aggregate_by_number(OpContext& c) {
  constexpr std::array<ForestAggregate, 4> kNumbers = {ForestAggregate::average, ForestAggregate::sum,
                                                       ForestAggregate::min, ForestAggregate::max};
  const std::int64_t number = c.int_attribute("aggregate_function", 1);
  if (number < 0 || number >= static_cast<std::int64_t>(kNumbers.size()))
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute 'aggregate_function' is {}, expected 0 to 3", number));
  return kNumbers[static_cast<std::size_t>(number)];
}

void check_base(OpContext& c, std::size_t size, std::int64_t most, bool fewer) {
  const auto count = static_cast<std::int64_t>(size);
  if (count == 0 || count == most || (fewer && count < most)) return;
  c.fail(errors::kInvalidAttribute,
         fmt::format("attribute 'base_values' has {} elements, expected 0 or {}", count, most));
}

// A single target gets no post transform but PROBIT.
TensorBox one_target(OpContext& c, const ForestSums& sums, double base, PostTransform transform) {
  return c.lowering().generate({sums.rows(), 1}, [&](BodyBuilder& b, std::span<const Expr> at) {
    const Real sum = sums.value(b, at[0], 0);
    const Real y = base == 0 ? sum : sum + base;
    return (transform == PostTransform::probit ? probit(y) : y).v;
  });
}

void regress(OpContext& c, const Forest& forest, ForestAggregate aggregate, const std::vector<double>& base,
             DType result) {
  ir::Lowering& l = c.lowering();
  const PostTransform transform = post_transform_of(c);
  const ForestSums sums(c, forest, aggregate, !base.empty());
  if (sums.targets() == 1)
    return c.set_output(0, l.cast(one_target(c, sums, base.empty() ? 0 : base[0], transform), result));
  TensorBox values = sums.all();
  if (!base.empty()) {
    const TensorBox bases = constant_table(c, c.op_type() + "_base", sums.real(), {sums.targets()}, base);
    values = sums.where_present(binary(l, OpCode::add, values, bases), 0);
  }
  c.set_output(0, l.cast(transformed(l, values, transform), result));
}

void lower_tree_ensemble(OpContext& c) {
  regress(c, forest_of_positions(c), aggregate_by_number(c), {}, c.dtype(0));
}

void lower_tree_regressor(OpContext& c) {
  const std::int64_t targets = c.int_attribute("n_targets", 0);
  Forest forest = forest_of_ids(c, "target", targets);
  // A leaf without a weight for the only target has the weight 0, which an extreme counts.
  for (ForestNode& node : forest.nodes) {
    if (targets == 1 && !node.test && node.weights.empty()) node.weights.push_back({0, 0});
  }
  const std::vector<double> base = real_attribute(c, "base_values");
  check_base(c, base.size(), targets, false);
  regress(c, forest, aggregate_by_name(c), base, DType::f32);
}

// ---- two classes

// Two classes have one score, that of the second, or two. A class without a weight in a row has the score 0.
class TwoClasses {
 public:
  TwoClasses(OpContext& c, const Forest& forest, std::vector<double> base)
      : c_(c),
        base_(std::move(base)),
        transform_(post_transform_of(c)),
        sums_(c, forest, ForestAggregate::sum, true) {
    std::set<std::int64_t> classes;
    for (const ForestNode& node : forest.nodes) {
      for (const LeafWeight& w : node.weights) {
        classes.insert(w.target);
        all_positive_ = all_positive_ && !(w.weight < 0);
      }
    }
    one_weighted_ = classes.size() == 1;
    using Presence = ForestSums::Presence;
    const bool one_score = base_.size() < 2 && sums_.presence(1) != Presence::always;
    if (one_score && (transform_ == PostTransform::probit || (base_.size() == 1 && !one_weighted_)))
      c.fail(errors::kUnsupportedForm, "the score of the first of two classes is not defined",
             "convert the model with weights for both classes, or without PROBIT");
  }

  void set_outputs(const ClassLabels& labels) {
    ir::Lowering& l = c_.lowering();
    const std::vector<std::int64_t> own = one_weighted_ ? labels.numbers : std::vector<std::int64_t>{0, 1};
    c_.set_output(0, l.generate({sums_.rows()}, [&](BodyBuilder& b, std::span<const Expr> at) {
      const Row row = scores(b, at[0]);
      return b.where(wins(row), b.constant(DType::i64, own[1]), b.constant(DType::i64, own[0]));
    }));
    const TensorBox z = l.generate({sums_.rows(), 2}, [&](BodyBuilder& b, std::span<const Expr> at) {
      const auto [first, second] = results(scores(b, at[0]));
      const ValueId is_first = b.binary(OpCode::eq, b.index(at[1]), b.constant(DType::i64, std::int64_t{0}));
      return select(is_first, first, second).v;
    });
    c_.set_output(1, l.cast(z, DType::f32));
  }

 private:
  struct Row {
    Real first, second;
    ValueId has_second;
  };

  Row scores(BodyBuilder& b, const Expr& at) {
    Row row{sums_.value(b, at, 0), sums_.value(b, at, 1), sums_.present(b, at, 1)};
    const ValueId has_first = sums_.present(b, at, 0);
    const Real zero = literal(row.first, 0);
    if (base_.size() == 2) {
      // If the second class has weights, the score is that of the first and the base of the second.
      const Real joined = row.first + base_[1];
      row.first = select(row.has_second, zero - joined, row.first + base_[0]);
      row.second = select(row.has_second, joined, row.second + base_[1]);
    } else if (base_.size() == 1) {
      row.first = row.first + base_[0];
    }
    row.first = select(has_first, row.first, zero);
    row.second = select(row.has_second, row.second, zero);
    return row;
  }

  // Whether the second class has the label.
  ValueId wins(const Row& row) const {
    const Real score = select(row.has_second, row.second, row.first);
    return literal(score, one_weighted_ && all_positive_ ? 0.5 : 0) < score;
  }

  std::pair<Real, Real> results(const Row& row) const {
    const auto both = transformed_pair(row.first, row.second, transform_);
    if (base_.size() == 2) return both;
    const auto one = of_one(row.first);
    return {select(row.has_second, both.first, one.first), select(row.has_second, both.second, one.second)};
  }

  // The scores of both classes if only one has any. PROBIT has been refused.
  std::pair<Real, Real> of_one(Real score) const {
    const Real negative = literal(score, 0) - score;
    if (transform_ == PostTransform::logistic) return {logistic(negative), logistic(score)};
    if (one_weighted_ && all_positive_) return {1 - score, score};
    return {negative, score};
  }

  OpContext& c_;
  std::vector<double> base_;
  PostTransform transform_;
  ForestSums sums_;
  bool all_positive_ = true, one_weighted_ = false;  // weights; classes with any
};

// ---- classification

void classify_many(OpContext& c, const Forest& forest, const ClassLabels& labels,
                   const std::vector<double>& base) {
  ir::Lowering& l = c.lowering();
  const PostTransform transform = post_transform_of(c);
  const ForestSums sums(c, forest, ForestAggregate::sum, base.empty());
  TensorBox scores = sums.all();
  TensorBox ranked;
  if (base.empty()) {
    ranked = sums.where_present(scores, -std::numeric_limits<double>::infinity());
  } else {
    const TensorBox bases = constant_table(c, c.op_type() + "_base", sums.real(), {sums.targets()}, base);
    scores = ranked = binary(l, OpCode::add, scores, bases);
  }
  c.set_output(0, labelled(c, labels, largest_class(l, ranked)));
  c.set_output(1, l.cast(transformed(l, scores, transform), DType::f32));
}

// The label of a single class is 1 where its score is positive and 0 elsewhere.
void classify_one(OpContext& c, const Forest& forest, const ClassLabels& labels,
                  const std::vector<double>& base) {
  if (labels.strings)
    c.fail(errors::kUnsupportedForm, "a classifier of a single class with a string as its label",
           "convert the model with integer labels");
  ir::Lowering& l = c.lowering();
  const ForestSums sums(c, forest, ForestAggregate::sum, false);
  const TensorBox scores = one_target(c, sums, base.empty() ? 0 : base[0], PostTransform::none);
  c.set_output(0, l.generate({sums.rows()}, [&](BodyBuilder& b, std::span<const Expr> at) {
    const Real score{&b, l.load(b, scores, std::array<Expr, 2>{at[0], 0})};
    return b.cast(literal(score, 0) < score, DType::i64);
  }));
  const PostTransform transform = post_transform_of(c);
  const TensorBox z = transform == PostTransform::probit ? transformed(l, scores, transform) : scores;
  c.set_output(1, l.cast(z, DType::f32));
}

void lower_tree_classifier(OpContext& c) {
  const ClassLabels labels = class_labels(c, "classlabels_int64s", "classlabels_strings");
  const auto classes = static_cast<std::int64_t>(labels.numbers.size());
  const Forest forest = forest_of_ids(c, "class", classes);
  std::vector<double> base = real_attribute(c, "base_values");
  check_base(c, base.size(), classes, classes == 2);
  if (classes == 1) return classify_one(c, forest, labels, base);
  if (classes > 2) return classify_many(c, forest, labels, base);
  TwoClasses(c, forest, std::move(base)).set_outputs(labels);
}

}  // namespace

std::span<const OpSpec> tree_ensemble_ops() {
  static constexpr const char* kWhole = "the kernel of trees computes all rows of a rank";
  static const OpSpec ops[] = {
      {kMlDomain, "TreeEnsemble", 5, kNewestMl, TypeSet{DType::f32, DType::f64, DType::f16},
       lower_tree_ensemble, work::trees(), sharding::replicated(kWhole), kNoState, kNoSizes},
      {kMlDomain, "TreeEnsembleClassifier", 1, kLastTrees, kTreeInputs, lower_tree_classifier, work::trees(),
       sharding::replicated(kWhole), kNoState, kNoSizes},
      {kMlDomain, "TreeEnsembleRegressor", 1, kLastTrees, kTreeInputs, lower_tree_regressor, work::trees(),
       sharding::replicated(kWhole), kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
