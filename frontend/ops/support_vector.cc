// SVMRegressor and SVMClassifier: kernels of rows with support vectors, and products with coefficients. ONNX
// leaves scores of two classes open; they are those of ONNX Runtime.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "frontend/ops/class_scores.h"
#include "frontend/ops/constant_input.h"
#include "frontend/ops/pairwise_coupling.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

constexpr TypeSet kVectorInputs = {DType::f32, DType::f64, DType::i32, DType::i64};

std::vector<double> float_values(OpContext& c, const char* name) {
  const std::vector<float> values = c.floats_attribute(name).value_or(std::vector<float>());
  return {values.begin(), values.end()};
}

std::vector<double> required_values(OpContext& c, const char* name) {
  std::vector<double> values = float_values(c, name);
  if (values.empty()) c.fail(errors::kInvalidAttribute, fmt::format("attribute '{}' has no elements", name));
  return values;
}

void require_count(OpContext& c, const char* name, std::size_t count, std::int64_t expected) {
  if (static_cast<std::int64_t>(count) < expected)
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute '{}' has {} elements, expected {}", name, count, expected));
}

struct VectorKernel {
  std::string type = "LINEAR";
  double gamma = 0, offset = 0, degree = 0;
};

VectorKernel kernel_of(OpContext& c) {
  VectorKernel kernel{c.string_attribute("kernel_type", "LINEAR")};
  static constexpr std::array<const char*, 4> kTypes = {"LINEAR", "POLY", "RBF", "SIGMOID"};
  if (std::find(kTypes.begin(), kTypes.end(), kernel.type) == kTypes.end())
    c.fail(errors::kInvalidAttribute, fmt::format("attribute 'kernel_type' is '{}', expected one of {}",
                                                  kernel.type, fmt::join(kTypes, ", ")));
  const std::vector<double> parameters = float_values(c, "kernel_params");
  if (parameters.empty()) return kernel;
  require_count(c, "kernel_params", parameters.size(), 3);
  kernel.gamma = parameters[0];
  kernel.offset = parameters[1];
  kernel.degree = parameters[2];
  return kernel;
}

// exp(-gamma |x - v|^2). The squares of distances follow from a product: in f64, where large norms cancel.
TensorBox gaussian(OpContext& c, const TensorBox& x, const std::vector<double>& vectors, std::int64_t count,
                   double gamma) {
  ir::Lowering& l = c.lowering();
  const auto features = static_cast<std::int64_t>(vectors.size()) / count;
  std::vector<double> norms(static_cast<std::size_t>(count), 0);
  for (std::size_t k = 0; k < vectors.size(); ++k)
    norms[k / static_cast<std::size_t>(features)] += vectors[k] * vectors[k];
  const TensorBox rows = l.realize(l.cast(x, DType::f64));
  const TensorBox own = l.reduce(binary(l, OpCode::mul, rows, rows), ir::ReduceKind::sum, {1}, true);
  const TensorBox others = constant_table(c, c.op_type() + "_norms", DType::f64, {count}, norms);
  const TensorBox all =
      l.permute(constant_table(c, c.op_type() + "_vectors", DType::f64, {count, features}, vectors), {1, 0});
  return l.pointwise({l.matmul(rows, all), own, others}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    const Real norm{&b, v[1]};
    const Real difference = norm + Real{&b, v[2]} - Real{&b, v[0]} * 2;
    const Real square = select(b.unary(OpCode::is_inf, norm.v), norm, difference);
    const Real distance{&b, b.cast(apply(OpCode::max, square, literal(square, 0)).v, DType::f32)};
    return apply(OpCode::exp, distance * -gamma).v;
  });
}

// The kernel of each row with each vector: [n, vectors], in f32.
TensorBox kernels(OpContext& c, const VectorKernel& kernel, const std::vector<double>& vectors,
                  std::int64_t count) {
  ir::Lowering& l = c.lowering();
  const auto total = static_cast<std::int64_t>(vectors.size());
  if (count < 1 || total % count != 0)
    c.fail(errors::kInvalidAttribute, fmt::format("{} numbers for {} vectors", total, count));
  const std::int64_t features = total / count;
  const TensorBox x = feature_rows(c, DType::f32);
  l.require_equal(x.sizes()[1], features);
  if (kernel.type == "RBF") return gaussian(c, x, vectors, count, kernel.gamma);
  const TensorBox all = constant_table(c, c.op_type() + "_vectors", DType::f32, {count, features}, vectors);
  const TensorBox products = l.matmul(x, l.permute(all, {1, 0}));
  if (kernel.type == "LINEAR") return products;
  return l.pointwise({products}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    const Real scaled = Real{&b, v[0]} * kernel.gamma + kernel.offset;
    if (kernel.type == "SIGMOID") return apply(OpCode::tanh, scaled).v;
    return apply(OpCode::pow, scaled, literal(scaled, kernel.degree)).v;
  });
}

TensorBox plus(ir::Lowering& l, const TensorBox& x, double y) {
  return l.pointwise({x}, [&](BodyBuilder& b, std::span<const ValueId> v) { return (Real{&b, v[0]} + y).v; });
}

// Products of kernels with large coefficients cancel, so they are summed in f64.
TensorBox weighted(OpContext& c, const TensorBox& kernels, const std::vector<double>& weights,
                   std::int64_t columns) {
  const auto rows = static_cast<std::int64_t>(weights.size()) / columns;
  ir::Lowering& l = c.lowering();
  return l.matmul(l.cast(kernels, DType::f64),
                  constant_table(c, c.op_type() + "_weights", DType::f64, {rows, columns}, weights));
}

void lower_svm_regressor(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const std::int64_t count = c.int_attribute("n_supports", 0);
  const std::vector<double> coefficients = required_values(c, "coefficients"),
                            rho = required_values(c, "rho");
  TensorBox y;
  if (count > 0) {
    require_count(c, "coefficients", coefficients.size(), count);
    const std::vector<double> own(coefficients.begin(), coefficients.begin() + count);
    y = weighted(c, kernels(c, kernel_of(c), required_values(c, "support_vectors"), count), own, 1);
  } else {
    y = kernels(c, {}, coefficients, 1);
  }
  y = l.cast(plus(l, y, rho[0]), DType::f32);
  if (c.int_attribute("one_class", 0) != 0) {
    y = l.pointwise({y}, [](BodyBuilder& b, std::span<const ValueId> v) {
      const Real x{&b, v[0]};
      return select(literal(x, 0) < x, 1, literal(x, -1)).v;
    });
  }
  c.set_output(0, y);
}

// ---- classification

// The pairs of classes (0, 1), (0, 2), ..., (1, 2), ...: the score of a pair is positive for its first class.
class Pairs {
 public:
  Pairs(OpContext& c, std::int64_t classes, std::vector<std::int64_t> per_class)
      : c_(c), classes_(classes), per_class_(std::move(per_class)) {
    for (std::int64_t i = 0; i < classes; ++i) {
      for (std::int64_t j = i + 1; j < classes; ++j) {
        first_.push_back(i);
        second_.push_back(j);
      }
    }
  }

  std::int64_t count() const { return static_cast<std::int64_t>(first_.size()); }

  // [n, pairs]
  TensorBox scores() {
    const std::int64_t vectors = std::accumulate(per_class_.begin(), per_class_.end(), std::int64_t{0});
    const std::vector<double> coefficients = required_values(c_, "coefficients"),
                              rho = required_values(c_, "rho");
    require_count(c_, "coefficients", coefficients.size(), (classes_ - 1) * vectors);
    require_count(c_, "rho", rho.size(), count());
    ir::Lowering& l = c_.lowering();
    const TensorBox k = kernels(c_, kernel_of(c_), required_values(c_, "support_vectors"), vectors);
    const TensorBox sums = weighted(c_, k, pair_weights(coefficients, vectors), count());
    const std::vector<double> own(rho.begin(), rho.begin() + count());
    return binary(l, OpCode::add, sums,
                  constant_table(c_, c_.op_type() + "_rho", DType::f64, {count()}, own));
  }

  // How many pairs each class wins: f32 [n, classes].
  TensorBox votes(const TensorBox& scores) {
    ir::Lowering& l = c_.lowering();
    const TensorBox first = table("_first", first_), second = table("_second", second_);
    const TensorBox wins =
        l.generate({scores.sizes()[0], classes_, count()}, [&](BodyBuilder& b, std::span<const Expr> at) {
          const std::array<Expr, 1> pair = {at[2]};
          const Real score{&b, l.load(b, scores, std::array<Expr, 2>{at[0], at[2]})};
          const ValueId winner =
              b.where(literal(score, 0) < score, l.load(b, first, pair), l.load(b, second, pair));
          return b.cast(b.binary(OpCode::eq, winner, b.index(at[1])), DType::f32);
        });
    return l.reduce(wins, ir::ReduceKind::sum, {2}, false);
  }

  // The probability of each class in each pair, by Platt's scaling: [n, classes, classes], with 0 on the
  // diagonal.
  TensorBox probabilities(const TensorBox& scores) {
    ir::Lowering& l = c_.lowering();
    const std::vector<double> a = required_values(c_, "prob_a"), b = required_values(c_, "prob_b");
    require_count(c_, "prob_a", a.size(), count());
    require_count(c_, "prob_b", b.size(), count());
    const auto numbers = [&](const char* what, const std::vector<double>& values) {
      const std::vector<double> own(values.begin(), values.begin() + count());
      return constant_table(c_, c_.op_type() + what, DType::f32, {count()}, own);
    };
    const TensorBox scaled =
        binary(l, OpCode::add, binary(l, OpCode::mul, scores, numbers("_prob_a", a)), numbers("_prob_b", b));
    const TensorBox first =
        l.realize(l.pointwise({scaled}, [](BodyBuilder& body, std::span<const ValueId> v) {
          constexpr double kLeast = 1e-7;
          const Real chance = 1 - logistic({&body, v[0]});
          const Real bounded = apply(OpCode::max, chance, literal(chance, kLeast));
          return apply(OpCode::min, bounded, literal(chance, 1 - kLeast)).v;
        }));
    std::vector<std::int64_t> number(static_cast<std::size_t>(classes_ * classes_), 0);
    for (std::size_t p = 0; p < first_.size(); ++p) {
      for (const auto& [i, j] : {std::pair(first_[p], second_[p]), std::pair(second_[p], first_[p])})
        number[static_cast<std::size_t>(i * classes_ + j)] = static_cast<std::int64_t>(p);
    }
    const TensorBox pair_of = l.constant(c_.op_type() + "_pairs", DType::i64, {classes_, classes_},
                                         integer_tensor(DType::i64, {classes_, classes_}, number).data);
    const std::vector<Expr> sizes = {scores.sizes()[0], classes_, classes_};
    return l.realize(l.generate(sizes, [&](BodyBuilder& body, std::span<const Expr> at) {
      const Expr pair = body.as_index(l.load(body, pair_of, at.last(2)));
      const Real chance{&body, l.load(body, first, std::array<Expr, 2>{at[0], pair})};
      const ValueId i = body.index(at[1]), j = body.index(at[2]);
      const Real own = select(body.binary(OpCode::lt, i, j), chance, 1 - chance);
      return select(body.binary(OpCode::eq, i, j), 0, own).v;
    }));
  }

 private:
  TensorBox table(const char* what, const std::vector<std::int64_t>& values) {
    return c_.lowering().constant(c_.op_type() + what, DType::i64, {count()},
                                  integer_tensor(DType::i64, {count()}, values).data);
  }

  // [vectors, pairs]: vectors of class i count with row j - 1 of the coefficients, those of class j with row
  // i.
  std::vector<double> pair_weights(const std::vector<double>& coefficients, std::int64_t vectors) const {
    std::vector<double> weights(static_cast<std::size_t>(vectors * count()), 0);
    std::int64_t begin = 0;
    for (std::int64_t own = 0; own < classes_; ++own) {
      const std::int64_t end = begin + per_class_[static_cast<std::size_t>(own)];
      for (std::size_t p = 0; p < first_.size(); ++p) {
        if (first_[p] != own && second_[p] != own) continue;
        const std::int64_t row = first_[p] == own ? second_[p] - 1 : first_[p];
        for (std::int64_t v = begin; v < end; ++v)
          weights[static_cast<std::size_t>(v * count()) + p] =
              coefficients[static_cast<std::size_t>(row * vectors + v)];
      }
      begin = end;
    }
    return weights;
  }

  OpContext& c_;
  std::int64_t classes_;
  std::vector<std::int64_t> per_class_, first_, second_;
};

// Two classes have one score, positive for the first one.
TensorBox two_scores(OpContext& c, const TensorBox& scores, PostTransform transform) {
  if (transform == PostTransform::probit)
    c.fail(errors::kUnsupportedForm, "the score of the first of two classes is not defined",
           "convert the model without PROBIT");
  ir::Lowering& l = c.lowering();
  return l.generate({scores.sizes()[0], 2}, [&](BodyBuilder& b, std::span<const Expr> at) {
    const Real score{&b, l.load(b, scores, std::array<Expr, 2>{at[0], 0})};
    const Real negative = literal(score, 0) - score;
    const ValueId is_first = b.binary(OpCode::eq, b.index(at[1]), b.constant(DType::i64, std::int64_t{0}));
    if (transform == PostTransform::none) return select(is_first, negative, score).v;
    if (transform == PostTransform::logistic) return select(is_first, logistic(negative), logistic(score)).v;
    return select(is_first, 1 - score, score).v;
  });
}

void classify_by_vectors(OpContext& c, const ClassLabels& labels,
                         const std::vector<std::int64_t>& per_class) {
  ir::Lowering& l = c.lowering();
  const auto classes = static_cast<std::int64_t>(labels.numbers.size());
  if (static_cast<std::int64_t>(per_class.size()) != classes || classes < 2 ||
      std::any_of(per_class.begin(), per_class.end(), [](std::int64_t n) { return n < 0; }))
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute 'vectors_per_class' has {} elements for {} classes", per_class.size(),
                       classes));
  const PostTransform transform = post_transform_of(c);
  Pairs pairs(c, classes, per_class);
  const TensorBox sums = pairs.scores();
  l.mark_reuse(sums, 2);
  c.set_output(0, labelled(c, labels, largest_class(l, pairs.votes(sums))));
  const TensorBox scores = l.cast(sums, DType::f32);
  if (!float_values(c, "prob_a").empty()) {
    const TensorBox chances = coupled_probabilities(l, pairs.probabilities(scores), classes);
    return c.set_output(1, transformed(l, chances, transform));
  }
  c.set_output(1, classes == 2 ? two_scores(c, scores, transform) : transformed(l, scores, transform));
}

// A score for each class. Of two classes the second has the label if any score is large enough.
void classify_linearly(OpContext& c, const ClassLabels& labels) {
  ir::Lowering& l = c.lowering();
  const auto classes = static_cast<std::int64_t>(labels.numbers.size());
  const std::vector<double> coefficients = required_values(c, "coefficients");
  const TensorBox scores = plus(l, kernels(c, {}, coefficients, classes), required_values(c, "rho")[0]);
  l.mark_reuse(scores, 3);
  TensorBox index = largest_class(l, scores);
  if (classes == 2) {
    const bool positive =
        std::all_of(coefficients.begin(), coefficients.end(), [](double x) { return x >= 0; });
    const TensorBox most = l.reduce(scores, ir::ReduceKind::max, {1}, false);
    index = l.pointwise({index, most}, [&](BodyBuilder& b, std::span<const ValueId> v) {
      const Real score{&b, v[1]};
      const ValueId second = positive ? literal(score, 0.5) <= score : literal(score, 0) < score;
      return b.where(second, b.constant(DType::i64, std::int64_t{1}), v[0]);
    });
  }
  c.set_output(0, labelled(c, labels, index));
  const PostTransform transform = post_transform_of(c);
  const bool applies = classes > 1 || transform == PostTransform::probit;
  c.set_output(1, applies ? transformed(l, scores, transform) : scores);
}

void lower_svm_classifier(OpContext& c) {
  const ClassLabels labels = class_labels(c, "classlabels_ints", "classlabels_strings");
  const std::vector<std::int64_t> per_class =
      c.ints_attribute("vectors_per_class").value_or(std::vector<std::int64_t>());
  if (std::accumulate(per_class.begin(), per_class.end(), std::int64_t{0}) == 0)
    return classify_linearly(c, labels);
  classify_by_vectors(c, labels, per_class);
}

}  // namespace

std::span<const OpSpec> support_vector_ops() {
  static constexpr const char* kSmall = "support vectors are attributes, and small";
  static const OpSpec ops[] = {
      {kMlDomain, "SVMClassifier", 1, kNewestMl, kVectorInputs, lower_svm_classifier,
       work::attribute_product(), sharding::replicated(kSmall), kNoState, kNoSizes},
      {kMlDomain, "SVMRegressor", 1, kNewestMl, kVectorInputs, lower_svm_regressor, work::attribute_product(),
       sharding::replicated(kSmall), kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
