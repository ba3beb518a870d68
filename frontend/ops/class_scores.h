// Results of operators of ai.onnx.ml: post transforms of scores, and labels of classes.
#pragma once

#include <string>
#include <vector>

#include "frontend/ops/real.h"

namespace braid::frontend {

// In the order of TreeEnsemble's numbers.
enum class PostTransform : std::uint8_t { none, softmax, logistic, softmax_zero, probit };

// Attribute post_transform, by name or, of TreeEnsemble, by number. BR0111 if it is another one.
PostTransform post_transform_of(OpContext& c);

Real logistic(Real x);
// sqrt(2) * erfinv(2x - 1) by Winitzki's approximation, as ONNX Runtime computes it.
Real probit(Real x);

// Transforms rows of at least two scores [rows, classes].
TensorBox transformed(ir::Lowering& l, TensorBox scores, PostTransform transform);
// The same of two scores.
std::pair<Real, Real> transformed_pair(Real a, Real b, PostTransform transform);

// The first position of the largest score in each row: i64 [rows].
TensorBox largest_class(ir::Lowering& l, const TensorBox& scores);

struct ClassLabels {
  std::vector<std::int64_t> numbers;  // of string labels: their positions
  bool strings = false;
};
// BR0111 unless exactly one of the two attributes has labels.
ClassLabels class_labels(OpContext& c, const char* numbers, const char* strings);

// labels[index] of each row.
TensorBox labelled(OpContext& c, const ClassLabels& labels, const TensorBox& index);

// Input 0 as rows [n, features]; a vector is one row. BR0114 for other ranks, and for integers real numbers.
TensorBox feature_rows(OpContext& c, DType real);

}  // namespace braid::frontend
