// Elementwise functions of any number of tensors: Min, Max, Sum, Mean.
#include "frontend/ops/common.h"

namespace braid::frontend {
namespace {

TensorBox fold(OpContext& c, OpCode code) {
  std::vector<TensorBox> inputs = {c.input(0)};
  for (int k = 1; k < c.input_count(); ++k) inputs.push_back(c.input(k));
  return c.lowering().pointwise(inputs, [&](BodyBuilder& b, std::span<const ValueId> v) {
    ValueId result = v[0];
    for (std::size_t k = 1; k < v.size(); ++k) result = b.binary(code, result, v[k]);
    return result;
  });
}

template <OpCode code>
void lower(OpContext& c) {
  c.set_output(0, fold(c, code));
}

void lower_mean(OpContext& c) {
  const double count = c.input_count();
  c.set_output(
      0, c.lowering().pointwise({fold(c, OpCode::add)}, [&](BodyBuilder& b, std::span<const ValueId> v) {
        return b.binary(OpCode::div, v[0], b.constant_of(b.dtype(v[0]), count));
      }));
}

}  // namespace

std::span<const OpSpec> variadic_ops() {
  static const OpSpec ops[] = {
      {"", "Max", 1, kNewestOpset, kNumbers, lower<OpCode::max>, work::variadic(1), rule::kElementwise,
       kNoState, size_rule::kMax},
      {"", "Mean", 1, kNewestOpset, kFloats, lower_mean, work::pointwise(12), rule::kAdditive, kNoState,
       kNoSizes},
      {"", "Min", 1, kNewestOpset, kNumbers, lower<OpCode::min>, work::variadic(1), rule::kElementwise,
       kNoState, size_rule::kMin},
      {"", "Sum", 1, kNewestOpset, kFloats, lower<OpCode::add>, work::variadic(1), rule::kAdditive, kNoState,
       size_rule::kSum},
  };
  return ops;
}

}  // namespace braid::frontend
