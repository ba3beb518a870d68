#include "frontend/ops/quantised.h"

#include <cmath>

#include "frontend/ops/operand_sizes.h"
#include "frontend/ops/small_types.h"
#include "ir/error_numbers.h"

namespace braid::frontend {

void check_scale(OpContext& c, int k) {
  const Value& v = c.value(k);
  if (!v.constant || !is_float(v.dtype) || !v.constant->data.same_on_all_ranks()) return;
  for (std::int64_t i = 0; i < v.constant->count(); ++i) {
    const double scale = float_at(*v.constant, i);
    if (scale > 0 && std::isfinite(scale)) continue;
    c.fail(errors::kQuantisationScale,
           fmt::format("element {} of the scale '{}' is {}, expected a positive number", i, v.name, scale),
           "quantise the model again: a tensor of zeros may have any positive scale");
  }
}

bool is_absent_or_zero(OpContext& c, int k) {
  if (!c.has_input(k)) return true;
  Value& v = c.value(k);
  if (const std::optional<Elements>& elements = elements_of(v)) {
    for (const Expr& e : elements->values) {
      if (!e.is_constant(0)) return false;
    }
    return true;
  }
  if (!v.constant || !v.constant->data.same_on_all_ranks() || is_float(v.dtype)) return false;
  for (std::int64_t i = 0; i < v.constant->count(); ++i) {
    if (integer_at(*v.constant, i) != 0) return false;
  }
  return true;
}

TensorBox one_scale(OpContext& c, int k, bool keep_type) {
  check_scale(c, k);
  const TensorBox scale = one_element(c, k, "the scale");
  return keep_type ? scale : c.lowering().cast(scale, DType::f32);
}

void require_zero_type(OpContext& c, int k, DType type) {
  if (c.dtype(k) == type) return;
  c.fail(errors::kTypeMismatch,
         fmt::format("the zero point '{}' is {}, but what it belongs to is {}", c.value(k).name,
                     to_string(c.dtype(k)), to_string(type)),
         "a tensor and its zero point have one type");
}

std::optional<TensorBox> one_zero(OpContext& c, int k, DType type) {
  if (!c.has_input(k)) return std::nullopt;
  require_zero_type(c, k, type);
  const TensorBox zero = one_element(c, k, "the zero point");
  if (is_absent_or_zero(c, k)) return std::nullopt;
  return cast_tensor(c.lowering(), zero, DType::i32);
}

TensorBox centred(ir::Lowering& l, const TensorBox& x, const std::optional<TensorBox>& zero) {
  const TensorBox wide = cast_tensor(l, x, DType::i32);
  return zero ? binary(l, OpCode::sub, wide, *zero) : wide;
}

TensorBox rounded_to(ir::Lowering& l, const TensorBox& x, const std::optional<TensorBox>& zero, DType to) {
  std::vector<TensorBox> operands{x};
  if (zero) operands.push_back(*zero);
  return l.pointwise(operands, [&](BodyBuilder& b, std::span<const ValueId> v) {
    ValueId n = b.unary(OpCode::round, v[0]);
    const DType type = b.dtype(n);
    if (zero) n = b.binary(OpCode::add, n, b.cast(v[1], type));
    if (!is_storage(to)) return b.cast(n, to);  // saturates
    const int bits = ir::bits_of(to);
    const bool is_signed = byte_type(to) == DType::i8;
    const double least = is_signed ? -std::ldexp(1.0, bits - 1) : 0;
    n = b.binary(OpCode::max, n, b.constant(type, least));
    n = b.binary(OpCode::min, n, b.constant(type, least + std::ldexp(1.0, bits) - 1));
    return cast_element(b, n, to);
  });
}

TensorBox scaled(ir::Lowering& l, const TensorBox& x, const TensorBox& scale) {
  return l.pointwise({x, scale}, [](BodyBuilder& b, std::span<const ValueId> v) {
    return b.binary(OpCode::mul, b.cast(v[0], DType::f32), b.cast(v[1], DType::f32));
  });
}

TensorBox dequantised(OpContext& c, const QuantisedInput& in) {
  ir::Lowering& l = c.lowering();
  const TensorBox x = c.input(in.tensor);
  return scaled(l, centred(l, x, one_zero(c, in.zero, x.dtype())), one_scale(c, in.scale));
}

TensorBox quantised(OpContext& c, const TensorBox& x, const QuantisedInput& out, DType type) {
  ir::Lowering& l = c.lowering();
  if (c.has_input(out.zero)) type = c.dtype(out.zero);
  const TensorBox divided = binary(l, OpCode::div, l.cast(x, DType::f32), one_scale(c, out.scale));
  return rounded_to(l, divided, one_zero(c, out.zero, type), type);
}

DynamicallyQuantised dynamically_quantised(ir::Lowering& l, const TensorBox& x) {
  constexpr double kSteps = 255;
  std::vector<int> axes = axes_from(0, static_cast<int>(x.rank()));
  const auto extreme = [&](ir::ReduceKind kind) { return axes.empty() ? x : l.reduce(x, kind, axes, false); };
  const auto with_zero = [&](OpCode code, const TensorBox& v) {
    return binary(l, code, v, l.scalar(DType::f32, 0));
  };
  const TensorBox least = l.realize(with_zero(OpCode::min, extreme(ir::ReduceKind::min)));
  const TensorBox most = l.realize(with_zero(OpCode::max, extreme(ir::ReduceKind::max)));
  // A tensor of zeros has the scale of the range [0, 1].
  const TensorBox scale =
      l.realize(l.pointwise({least, most}, [&](BodyBuilder& b, std::span<const ValueId> v) {
        const ValueId range = b.where(b.binary(OpCode::eq, v[0], v[1]), b.constant_of(DType::f32, 1),
                                      b.binary(OpCode::sub, v[1], v[0]));
        return b.binary(OpCode::div, range, b.constant_of(DType::f32, kSteps));
      }));
  // 0 - least / scale, which rounds into u8 with saturation.
  const TensorBox zero =
      l.realize(l.pointwise({least, scale}, [](BodyBuilder& b, std::span<const ValueId> v) {
        const ValueId at =
            b.binary(OpCode::sub, b.constant_of(DType::f32, 0), b.binary(OpCode::div, v[0], v[1]));
        return b.cast(b.unary(OpCode::round, at), DType::u8);
      }));
  return {rounded_to(l, binary(l, OpCode::div, x, scale), zero, DType::u8), scale, zero};
}

}  // namespace braid::frontend
