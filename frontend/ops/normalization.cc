// LayerNormalization and RMSNormalization: statistics over the last axes, in two passes, in the type
// `stash_type`.
#include "frontend/ops/broadcast.h"
#include "frontend/ops/statistics.h"

namespace braid::frontend {
namespace {

void lower_layer_normalization(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const int rank = c.rank(0), axis = c.axis_attribute(rank, -1);
  const std::vector<int> axes = axes_from(axis, rank);
  require_broadcast_to_first(c, 1);
  if (c.has_input(2)) require_broadcast_to_first(c, 2);
  const Normalized n =
      normalized(l, l.cast(c.input(0), stash_type(c)), axes, c.float_attribute("epsilon", 1e-5f));
  TensorBox y = l.cast(n.value, c.dtype(0));
  y = binary(l, OpCode::mul, y, c.input(1));
  if (c.has_input(2)) y = binary(l, OpCode::add, y, c.input(2));
  c.set_output(0, y);
  if (c.has_output(1)) c.set_output(1, n.mean);
  if (c.has_output(2)) c.set_output(2, n.inverse_deviation);
}

void lower_rms_normalization(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const int rank = c.rank(0), axis = c.axis_attribute(rank, -1);
  require_broadcast_to_first(c, 1);
  const TensorBox x = l.cast(c.input(0), stash_type(c));
  l.mark_reuse(x, 2);
  const TensorBox inverse =
      inverse_deviation(l, x, axes_from(axis, rank), c.float_attribute("epsilon", 1e-5f));
  const DType out = c.dtype(1);  // the scale's type is the result's
  c.set_output(0, binary(l, OpCode::mul, l.cast(binary(l, OpCode::mul, x, inverse), out), c.input(1)));
  if (c.has_output(1)) c.set_output(1, inverse);  // SimplifiedLayerNormalization
}

}  // namespace

std::span<const OpSpec> normalization_ops() {
  static const OpSpec ops[] = {
      {"", "LayerNormalization", 1, kNewestOpset, kFloats, lower_layer_normalization, work::row_fold(49, 3),
       rule::kLayerNormalization, kNoState, kNoSizes},
      {"", "RMSNormalization", 23, kNewestOpset, kFloats, lower_rms_normalization, work::row_fold(25, 2),
       rule::kLayerNormalization, kNoState, kNoSizes},
      {"", "SimplifiedLayerNormalization", 1, kNewestOpset, kFloats, lower_rms_normalization,
       work::row_fold(25, 2), rule::kLayerNormalization, kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
