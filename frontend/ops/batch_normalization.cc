// BatchNormalization in inference: a factor and a shift per channel, computed from constants here, so that the
// product or convolution before it takes both as its epilogue.
#include <cmath>
#include <memory>

#include "frontend/ops/broadcast.h"

namespace braid::frontend {
namespace {

void require_inference(OpContext& c) {
  const bool training = c.version() >= 14  ? c.int_attribute("training_mode", 0) != 0
                        : c.version() >= 7 ? c.has_output(1)  // only training updates the statistics
                                           : c.int_attribute("is_test", 0) == 0;
  if (!training) return;
  c.fail(kUnsupportedForm, "this BatchNormalization is for training", "export the model for inference");
}

// Before version 9, spatial = 0 requests statistics for every position of the image.
TensorBox parameter(OpContext& c, int k) {
  if (c.version() >= 9 || c.int_attribute("spatial", 1) != 0) return per_channel(c, k);
  require_broadcast_to_first(c, k);
  return c.input(k);
}

struct Line {
  TensorBox factor, shift;
};

// scale / sqrt(variance + epsilon) and bias - mean * factor. nullopt: a parameter is not known, or no line has
// the value for these (a variance of 0 without epsilon).
std::optional<Line> known_line(OpContext& c, DType compute, double epsilon) {
  std::vector<const Tensor*> parameters;
  for (int k = 1; k < 5; ++k) {
    const std::optional<Tensor>& constant = c.value(k).constant;
    if (!constant || !constant->data.same_on_all_ranks()) return std::nullopt;
    parameters.push_back(&*constant);
  }
  const std::int64_t n = parameters[0]->count();
  struct Numbers {
    std::vector<double> wide;
    std::vector<float> narrow;
  };
  const auto factor = std::make_shared<Numbers>(), shift = std::make_shared<Numbers>();
  for (std::int64_t k = 0; k < n; ++k) {
    const auto at = [&](std::size_t p) { return float_at(*parameters[p], k); };
    const double slope = at(0) / std::sqrt(at(3) + epsilon), offset = at(1) - at(2) * slope;
    if (!std::isfinite(slope) || !std::isfinite(offset)) return std::nullopt;
    factor->wide.push_back(slope);
    shift->wide.push_back(offset);
  }
  const auto box = [&](const char* name, const std::shared_ptr<Numbers>& numbers) {
    numbers->narrow.assign(numbers->wide.begin(), numbers->wide.end());
    ir::ConstantData data;
    data.per_rank = {compute == DType::f64 ? std::as_bytes(std::span(numbers->wide))
                                           : std::as_bytes(std::span(numbers->narrow))};
    data.owner = numbers;
    TensorBox x = c.lowering().constant(name, compute, parameters[0]->sizes, std::move(data));
    while (x.rank() > 0 && static_cast<int>(x.rank()) < c.rank(0) - 1 && parameters[0]->sizes.size() == 1)
      x = c.lowering().unsqueeze(x, static_cast<int>(x.rank()));
    return x;
  };
  return Line{box("factor", factor), box("shift", shift)};
}

void lower_batch_normalization(OpContext& c) {
  require_inference(c);
  ir::Lowering& l = c.lowering();
  const DType dtype = c.dtype(0), compute = compute_type(dtype);
  if (c.rank(0) < 1) c.fail(kShapeMismatch, "the input must have at least one dimension");
  const double epsilon = c.float_attribute("epsilon", 1e-5f);
  std::vector<TensorBox> parameters;
  for (int k = 1; k < 5; ++k) parameters.push_back(l.cast(parameter(c, k), compute));
  const TensorBox x = l.cast(c.input(0), compute);
  if (const std::optional<Line> line = known_line(c, compute, epsilon)) {
    c.set_output(0,
                 l.cast(binary(l, OpCode::add, binary(l, OpCode::mul, x, line->factor), line->shift), dtype));
    return;
  }
  const TensorBox factor =
      l.pointwise({parameters[0], parameters[3]}, [&](BodyBuilder& b, std::span<const ValueId> v) {
        const ValueId variance = b.binary(OpCode::add, v[1], b.constant_of(compute, epsilon));
        return b.binary(OpCode::mul, v[0], b.unary(OpCode::rsqrt, variance));
      });
  constexpr int kMany = 8;  // every element of a channel reads its factor
  l.mark_reuse(factor, kMany);
  const TensorBox scaled = binary(l, OpCode::mul, binary(l, OpCode::sub, x, parameters[2]), factor);
  c.set_output(0, l.cast(binary(l, OpCode::add, scaled, parameters[1]), dtype));
}

const OpSpec kOps[] = {{"", "BatchNormalization", 1, kNewestOpset, kFloats, lower_batch_normalization}};

}  // namespace

std::span<const OpSpec> batch_normalization_ops() { return kOps; }

}  // namespace braid::frontend
