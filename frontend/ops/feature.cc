// Operators of ai.onnx.ml that prepare features: Scaler, Normalizer, Imputer, Binarizer, FeatureVectorizer
// and ArrayFeatureExtractor.
#include <array>
#include <cmath>

#include "frontend/ops/class_scores.h"
#include "frontend/ops/constant_input.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

constexpr TypeSet kFeatures = {DType::f32, DType::f64, DType::i32, DType::i64};

std::vector<double> reals(OpContext& c, const char* name) {
  const std::vector<float> values = c.floats_attribute(name).value_or(std::vector<float>());
  return {values.begin(), values.end()};
}

// A number for each feature of input 0, the last dimension, or one for all of them.
TensorBox by_feature(OpContext& c, const char* what, const Tensor& numbers) {
  ir::Lowering& l = c.lowering();
  const std::int64_t count = numbers.count();
  if (count == 1) return fill(l, {}, numbers.dtype, literal_at(numbers, 0));
  if (c.rank(0) != 1 && c.rank(0) != 2)
    c.fail(errors::kUnsupportedForm,
           fmt::format("attribute '{}' has {} elements for an input of rank {}", what, count, c.rank(0)),
           "numbers for each feature need a matrix or a vector");
  l.require_equal(c.size(0, -1), count);
  return l.constant(c.op_type() + "_" + what, numbers.dtype, {count}, numbers.data);
}

TensorBox by_feature(OpContext& c, const char* what, DType real, const std::vector<double>& numbers) {
  return by_feature(c, what, rounded_tensor(real, {static_cast<std::int64_t>(numbers.size())}, numbers));
}

// (x - offset) * scale
void lower_scaler(OpContext& c) {
  ir::Lowering& l = c.lowering();
  std::vector<double> offset = reals(c, "offset"), scale = reals(c, "scale");
  if (offset.empty()) offset.push_back(0);
  if (scale.empty()) scale.push_back(1);
  const DType real = c.dtype(0) == DType::f64 ? DType::f64 : DType::f32;
  const TensorBox shifted =
      binary(l, OpCode::sub, l.cast(c.input(0), real), by_feature(c, "offset", real, offset));
  c.set_output(0, l.cast(binary(l, OpCode::mul, shifted, by_feature(c, "scale", real, scale)), DType::f32));
}

// Divides a row by its largest element, the sum of its sizes or the root of the sum of its squares, unless
// that is 0.
void lower_normalizer(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const std::string norm = c.string_attribute("norm", "MAX");
  if (norm != "MAX" && norm != "L1" && norm != "L2")
    c.fail(errors::kInvalidAttribute, fmt::format("attribute 'norm' is '{}', expected MAX, L1 or L2", norm));
  const TensorBox x = feature_rows(c, DType::f32);
  l.mark_reuse(x, 2);
  const TensorBox terms = l.pointwise({x}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    if (norm == "MAX") return v[0];
    return norm == "L1" ? b.unary(OpCode::abs, v[0]) : b.binary(OpCode::mul, v[0], v[0]);
  });
  const ir::ReduceKind kind = norm == "MAX" ? ir::ReduceKind::max : ir::ReduceKind::sum;
  const TensorBox y =
      l.pointwise({x, l.reduce(terms, kind, {1}, true)}, [&](BodyBuilder& b, std::span<const ValueId> v) {
        const Real element{&b, v[0]}, sum{&b, v[1]};
        const Real divisor = norm == "L2" ? apply(OpCode::sqrt, sum) : sum;
        return select(divisor == 0, element, element / divisor).v;
      });
  c.set_output(0, c.rank(0) == 1 ? l.squeeze(y, 0) : y);
}

// Elements that equal the replaced value, which may be NaN, become the imputed one.
TensorBox imputed(OpContext& c, const Tensor& values, const ir::Literal& replaced) {
  const TensorBox others = by_feature(c, "values", values);
  const double* real = std::get_if<double>(&replaced);
  const bool missing = real != nullptr && std::isnan(*real);
  return c.lowering().pointwise({c.input(0), others}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    const ValueId hit = missing ? b.unary(OpCode::is_nan, v[0])
                                : b.binary(OpCode::eq, v[0], b.constant(b.dtype(v[0]), replaced));
    return b.where(hit, v[1], v[0]);
  });
}

void lower_imputer(OpContext& c) {
  const DType type = c.dtype(0);
  const std::vector<std::int64_t> whole =
      c.ints_attribute("imputed_value_int64s").value_or(std::vector<std::int64_t>());
  const std::vector<double> values = reals(c, "imputed_value_floats");
  if (is_float(type) ? values.empty() : whole.empty())
    c.fail(errors::kInvalidAttribute,
           fmt::format("there is no value to impute in an input of {}", to_string(type)));
  if (is_float(type)) {
    const double replaced = c.float_attribute("replaced_value_float", 0);
    const auto count = static_cast<std::int64_t>(values.size());
    return c.set_output(0, imputed(c, rounded_tensor(type, {count}, values), replaced));
  }
  const Tensor table = integer_tensor(type, {static_cast<std::int64_t>(whole.size())}, whole);
  const std::int64_t replaced = c.int_attribute("replaced_value_int64", 0);
  const bool fits = type == DType::i64 || replaced == static_cast<std::int32_t>(replaced);
  c.set_output(0, fits ? imputed(c, table, replaced) : c.input(0));
}

void lower_binarizer(OpContext& c) {
  const double threshold = c.float_attribute("threshold", 0);
  c.set_output(0, c.lowering().pointwise({c.input(0)}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    const DType type = b.dtype(v[0]);
    const ValueId x = is_float(type) ? v[0] : b.cast(v[0], DType::f64);
    const ValueId above = b.binary(OpCode::lt, b.constant_of(b.dtype(x), threshold), x);
    return b.where(above, b.constant_of(type, 1), b.constant_of(type, 0));
  }));
}

// The inputs side by side, each cut or padded with zeros to its number of columns.
void lower_feature_vectorizer(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const std::vector<std::int64_t> widths =
      c.ints_attribute("inputdimensions").value_or(std::vector<std::int64_t>());
  if (static_cast<int>(widths.size()) != c.input_count())
    c.fail(errors::kInvalidAttribute, fmt::format("attribute 'inputdimensions' has {} elements for {} inputs",
                                                  widths.size(), c.input_count()));
  std::vector<TensorBox> parts;
  for (int k = 0; k < c.input_count(); ++k) {
    const std::int64_t width = widths[static_cast<std::size_t>(k)];
    if (width < 0 || c.rank(k) < 1 || c.rank(k) > 2)
      c.fail(errors::kShapeMismatch,
             fmt::format("input {} has rank {} and is given {} columns", k, c.rank(k), width));
    const TensorBox x = l.cast(c.rank(k) == 1 ? l.unsqueeze(c.input(k), 0) : c.input(k), DType::f32);
    const Expr size = x.sizes()[1];
    parts.push_back(l.generate({x.sizes()[0], width}, [&](BodyBuilder& b, std::span<const Expr> at) {
      if (ir::provably_less(width - 1, size)) return l.load(b, x, at);
      const ValueId there = b.binary(OpCode::lt, b.index(at[1]), b.index(size));
      return b.where(there, l.load(b, x, at, there), b.constant_of(DType::f32, 0));
    }));
  }
  if (parts.empty()) c.fail(errors::kInvalidNode, "there are no inputs");
  c.set_output(0, l.concat(parts, 1));
}

// The features of the last dimension that the indices name, as many as there are of them.
void lower_array_feature_extractor(OpContext& c) {
  ir::Lowering& l = c.lowering();
  if (c.rank(0) == 0) c.fail(errors::kShapeMismatch, "a scalar has no features");
  const TensorBox x = c.rank(0) == 1 ? l.unsqueeze(c.input(0), 0) : c.input(0);
  const TensorBox indices = l.reshape(c.input(1), {ir::numel(c.sizes(1))});
  std::vector<Expr> sizes = x.sizes();
  const Expr features = sizes.back();
  sizes.back() = indices.sizes()[0];
  c.set_output(0, l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    std::vector<Expr> from(at.begin(), at.end());
    from.back() = b.as_index(b.check_index(l.load(b, indices, at.last(1)), features));
    return l.load(b, x, from);
  }));
}

}  // namespace

std::span<const OpSpec> feature_ops() {
  static constexpr const char* kSmall = "rows of features are small next to what reads them";
  static const OpSpec ops[] = {
      {kMlDomain, "ArrayFeatureExtractor", 1, kNewestMl, kFeatures, lower_array_feature_extractor,
       work::gather(0), sharding::replicated(kSmall), kNoState, kNoSizes},
      {kMlDomain, "Binarizer", 1, kNewestMl, kFeatures, lower_binarizer, work::pointwise(1),
       sharding::replicated(kSmall), kNoState, kNoSizes},
      {kMlDomain, "FeatureVectorizer", 1, kNewestMl, kFeatures, lower_feature_vectorizer, work::join(),
       sharding::replicated(kSmall), kNoState, kNoSizes},
      {kMlDomain, "Imputer", 1, kNewestMl, kFeatures, lower_imputer, work::pointwise(2),
       sharding::replicated(kSmall), kNoState, kNoSizes},
      {kMlDomain, "Normalizer", 1, kNewestMl, kFeatures, lower_normalizer, work::fold(13, 2),
       sharding::replicated(kSmall), kNoState, kNoSizes},
      {kMlDomain, "Scaler", 1, kNewestMl, kFeatures, lower_scaler, work::pointwise(2),
       sharding::replicated(kSmall), kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
