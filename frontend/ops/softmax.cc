// Softmax and its logarithm, with the maximum subtracted first, so that no exponential overflows.
#include "frontend/ops/common.h"

namespace braid::frontend {
namespace {

struct Shifted {
  TensorBox shifted;      // x - max
  TensorBox exponential;  // exp(x - max)
  TensorBox sum;          // of the exponentials, keeping dimensions
};

Shifted shift(OpContext& c, const std::vector<int>& axes) {
  ir::Lowering& l = c.lowering();
  const TensorBox x = l.cast(c.input(0), compute_type(c.dtype(0)));
  l.mark_reuse(x, 2);
  Shifted s;
  s.shifted = binary(l, OpCode::sub, x, l.reduce(x, ir::ReduceKind::max, axes, true));
  s.exponential = unary(l, OpCode::exp, s.shifted);
  l.mark_reuse(s.exponential, 2);
  s.sum = l.reduce(s.exponential, ir::ReduceKind::sum, axes, true);
  return s;
}

// Up to version 12 the tensor counts as a matrix: all axes from `axis` on are normalised together.
std::vector<int> normalized_axes(OpContext& c) {
  const int rank = c.rank(0);
  if (c.version() >= 13) {
    if (rank == 0) return {};
    return {c.axis_attribute(rank, -1)};
  }
  const std::int64_t axis = c.int_attribute("axis", 1);
  if (axis == rank) return {};
  return axes_from(c.normalize_axis(axis, rank), rank);
}

void lower_softmax(OpContext& c) {
  const Shifted s = shift(c, normalized_axes(c));
  // One division for all elements of a sum. It is at least 1, so its reciprocal is finite.
  const TensorBox factor = unary(c.lowering(), OpCode::reciprocal, s.sum);
  c.set_output(0, c.lowering().cast(binary(c.lowering(), OpCode::mul, s.exponential, factor), c.dtype(0)));
}

void lower_log_softmax(OpContext& c) {
  const Shifted s = shift(c, normalized_axes(c));
  const TensorBox logarithm = unary(c.lowering(), OpCode::log, s.sum);
  c.set_output(0, c.lowering().cast(binary(c.lowering(), OpCode::sub, s.shifted, logarithm), c.dtype(0)));
}

}  // namespace

std::span<const OpSpec> softmax_ops() {
  static const OpSpec ops[] = {
      {"", "LogSoftmax", 1, kNewestOpset, kFloats, lower_log_softmax, work::reduction(25, 3),
       rule::kLogSoftmax, kNoState, kNoSizes},
      {"", "Softmax", 1, kNewestOpset, kFloats, lower_softmax, work::softmax(23, 2), rule::kSoftmax, kNoState,
       kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
