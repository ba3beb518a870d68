// BatchNormalization. In inference it is a factor and a shift per channel, computed from constants here, so
// that the product or convolution before it takes both as its epilogue. In training it uses the statistics of
// its own input; exporters write standardised weights in this form too.
#include <cmath>
#include <memory>

#include "frontend/ops/broadcast.h"
#include "frontend/ops/statistics.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

bool is_training(OpContext& c) {
  if (c.version() >= 14) return c.int_attribute("training_mode", 0) != 0;
  const bool training = c.version() >= 7 ? c.has_output(1)  // only training updates the statistics
                                         : c.int_attribute("is_test", 0) == 0;
  if (training) {
    c.fail(errors::kUnsupportedForm, "this BatchNormalization is for training",
           "export the model for inference, or for operator set 14 or newer");
  }
  return false;
}

// given * momentum + current * (1 - momentum), of one channel per element
TensorBox running(OpContext& c, int k, const TensorBox& current) {
  const double momentum = c.float_attribute("momentum", 0.9f);
  ir::Lowering& l = c.lowering();
  const DType compute = current.dtype();
  const TensorBox flat = l.reshape(current, c.sizes(k)), given = l.cast(c.input(k), compute);
  const TensorBox y = l.pointwise({given, flat}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    return b.binary(OpCode::add, b.binary(OpCode::mul, v[0], b.constant_of(compute, momentum)),
                    b.binary(OpCode::mul, v[1], b.constant_of(compute, 1 - momentum)));
  });
  return l.cast(y, c.dtype(k));
}

void lower_with_own_statistics(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const DType compute = compute_type(c.dtype(0));
  if (c.rank(0) < 2) c.fail(errors::kShapeMismatch, "the input must have at least two dimensions");
  std::vector<int> axes;
  for (int k = 0; k < c.rank(0); ++k) {
    if (k != 1) axes.push_back(k);
  }
  const TensorBox x = l.cast(c.input(0), compute);
  const Normalized n = normalized(l, x, axes, c.float_attribute("epsilon", 1e-5f));
  const TensorBox scale = l.cast(per_channel(c, 1), compute), bias = l.cast(per_channel(c, 2), compute);
  c.set_output(0, l.cast(binary(l, OpCode::add, binary(l, OpCode::mul, n.value, scale), bias), c.dtype(0)));
  if (c.has_output(1)) c.set_output(1, running(c, 3, n.mean));
  if (!c.has_output(2)) return;
  const TensorBox centered = binary(l, OpCode::sub, x, n.mean);
  c.set_output(2, running(c, 4, mean(l, binary(l, OpCode::mul, centered, centered), axes)));
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

// Returns scale / sqrt(variance + epsilon) and bias - mean * factor. nullopt: a parameter is not known, or no
// line has the value for these (a variance of 0 without epsilon).
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
  if (is_training(c)) return lower_with_own_statistics(c);
  ir::Lowering& l = c.lowering();
  const DType dtype = c.dtype(0), compute = compute_type(dtype);
  if (c.rank(0) < 1) c.fail(errors::kShapeMismatch, "the input must have at least one dimension");
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

}  // namespace

std::span<const OpSpec> batch_normalization_ops() {
  static const OpSpec ops[] = {
      {"", "BatchNormalization", 1, kNewestOpset, kFloats, lower_batch_normalization, work::pointwise(3),
       rule::kBatchNormalization, kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
