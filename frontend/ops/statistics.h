// Mean and deviation along axes, which normalisations divide by.
#pragma once

#include "frontend/ops/common.h"

namespace braid::frontend {

// Over the axes, which stay with size 1.
TensorBox mean(ir::Lowering& l, TensorBox x, const std::vector<int>& axes);

// 1 / sqrt(mean of squares + epsilon)
TensorBox inverse_deviation(ir::Lowering& l, TensorBox x, const std::vector<int>& axes, double epsilon);

// (x - mean) / sqrt(variance + epsilon) in two passes: the difference of two large means would lose the
// variance.
struct Normalized {
  TensorBox mean, inverse_deviation, value;
};
Normalized normalized(ir::Lowering& l, const TensorBox& x, const std::vector<int>& axes, double epsilon);

// The type that attribute `stash_type` requests for statistics.
DType stash_type(OpContext& c);

}  // namespace braid::frontend
