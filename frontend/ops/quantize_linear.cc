// QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear, of ONNX and of com.microsoft: one scale for a
// tensor, for each index of an axis, or for each block along an axis.
#include <optional>

#include "frontend/ops/operand_sizes.h"
#include "frontend/ops/quantised.h"
#include "frontend/ops/small_types.h"
#include "frontend/schemas.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

constexpr int kAxisSince = 13;

// Scale and zero point of input 0, as views that broadcast against it.
class Parameters {
 public:
  explicit Parameters(OpContext& c) : c_(c), sizes_(c.sizes(0)), block_(c.int_attribute("block_size", 0)) {
    if (block_ < 0) c.fail(errors::kInvalidAttribute, fmt::format("attribute 'block_size' is {}", block_));
    check_scale(c, 1);
    if (c.has_input(2)) check_same_shape();
  }

  TensorBox scale() { return along(1); }
  // nullopt: zero.
  std::optional<TensorBox> zero() {
    if (!c_.has_input(2)) return std::nullopt;
    const TensorBox box = along(2);  // whose sizes are checked
    if (is_absent_or_zero(c_, 2)) return std::nullopt;
    return box;
  }

 private:
  static bool is_one(const std::vector<Expr>& sizes) {
    return sizes.empty() || (sizes.size() == 1 && sizes[0].is_constant(1));
  }

  void check_same_shape() {
    const std::vector<Expr>&scale = c_.sizes(1), &zero = c_.sizes(2);
    if (is_one(scale) && is_one(zero)) return;
    bool same = scale.size() == zero.size();
    for (std::size_t d = 0; same && d < scale.size(); ++d) {
      same = !scale[d].is_constant() || !zero[d].is_constant() || scale[d] == zero[d];
    }
    if (!same)
      c_.fail(errors::kShapeMismatch,
              fmt::format("the scale has sizes [{}], but the zero point [{}]", text(scale), text(zero)),
              "scale and zero point have one shape");
    for (std::size_t d = 0; d < scale.size(); ++d) c_.lowering().require_equal(scale[d], zero[d]);
  }

  static std::string text(const std::vector<Expr>& sizes) {
    std::vector<std::string> parts;
    for (const Expr& s : sizes) parts.push_back(to_string(s));
    return fmt::format("{}", fmt::join(parts, ", "));
  }

  void require_size(const char* what, int k, std::size_t dim, Expr expected) {
    const Expr size = c_.sizes(k)[dim];
    if (size.is_constant() && expected.is_constant() && !(size == expected)) {
      c_.fail(errors::kShapeMismatch, fmt::format("dimension {} of {} has size {}, expected {}", dim, what,
                                                  to_string(size), to_string(expected)));
    }
    c_.lowering().require_equal(size, expected);
  }

  TensorBox along(int k) {
    ir::Lowering& l = c_.lowering();
    const char* what = k == 1 ? "the scale" : "the zero point";
    const std::vector<Expr>& given = c_.sizes(k);
    if (block_ == 0 && is_one(given)) return one_element(c_, k, what);
    const int rank = static_cast<int>(sizes_.size());
    if (block_ == 0) {
      const bool has_axis = !c_.domain().empty() || c_.version() >= kAxisSince;
      if (given.size() != 1 || !has_axis)
        c_.fail(errors::kShapeMismatch,
                fmt::format("{} has sizes [{}], expected {}", what, text(given),
                            has_axis ? "one element or, along an axis, rank 1" : "one element"));
      const int axis = c_.normalize_axis(c_.int_attribute("axis", 1), rank, "attribute 'axis'");
      require_size(what, k, 0, sizes_[static_cast<std::size_t>(axis)]);
      TensorBox box = c_.input(k);
      for (int d = axis + 1; d < rank; ++d) box = l.unsqueeze(box, d - axis);
      return box;
    }
    if (given.size() != sizes_.size())
      c_.fail(errors::kShapeMismatch,
              fmt::format("{} in blocks has rank {}, but the input has rank {}", what, given.size(), rank));
    const auto axis =
        static_cast<std::size_t>(c_.normalize_axis(c_.int_attribute("axis", 1), rank, "attribute 'axis'"));
    std::vector<Expr> map;
    for (std::size_t d = 0; d < sizes_.size(); ++d) {
      const Expr index = l.pool().index(d);
      require_size(what, k, d, d == axis ? ir::ceil_div(sizes_[d], block_) : sizes_[d]);
      map.push_back(d == axis ? ir::floor_div(index, block_) : index);
    }
    return l.view(c_.input(k), sizes_, map);
  }

  OpContext& c_;
  std::vector<Expr> sizes_;
  std::int64_t block_;
};

constexpr TypeSet kStored = TypeSet{DType::i8, DType::u8, DType::i16, DType::u16} | kStorage;

std::optional<DType> type_attribute(const OpContext& c, const char* name) {
  const std::int64_t type = c.int_attribute(name, 0);
  if (type == 0) return std::nullopt;
  return c.dtype_of(type);
}

// The type that the quotient of x and scale is rounded to.
DType division_type(OpContext& c) {
  const std::optional<DType> given = type_attribute(c, "precision");
  const DType type = given.value_or(c.dtype(1));
  if (is_float(type)) return type;
  if (given)
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute 'precision' is {}, expected a floating-point type", to_string(type)));
  return type == DType::i32 ? DType::f64 : DType::f32;  // of f8e8m0
}

void lower_quantize(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const std::optional<DType> asked = type_attribute(c, "output_dtype");
  const DType to = c.has_input(2) ? c.dtype(2) : asked.value_or(DType::u8);
  if (asked && *asked != to)
    c.fail(errors::kTypeMismatch, fmt::format("attribute 'output_dtype' is {}, but the zero point is {}",
                                              to_string(*asked), to_string(to)));
  if (!kStored.contains(to) || to == DType::f8e8m0)
    c.fail(errors::kUnsupportedType, fmt::format("the result would be {}", to_string(to)),
           "quantise to (u)int2 to (u)int16, float8 or float4e2m1");
  Parameters parameters(c);
  const TensorBox x = c.input(0), scale = parameters.scale();
  const std::optional<TensorBox> zero = parameters.zero();
  const DType type = division_type(c);
  const TensorBox divided = l.pointwise({x, scale}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    const ValueId quotient = b.binary(OpCode::div, b.cast(v[0], type), b.cast(to_number(b, v[1]), type));
    return b.cast(quotient, compute_type(type));
  });
  if (number_type(to) != DType::f32) {
    const std::optional<TensorBox> wide =
        zero ? std::optional(cast_tensor(l, *zero, DType::i32)) : std::nullopt;
    return c.set_output(0, rounded_to(l, divided, wide, to));
  }
  const CastOptions options{c.int_attribute("saturate", 1) != 0, PowerRounding::up};
  const bool always_adds = to == DType::f4e2m1 && c.has_input(2);
  std::vector<TensorBox> operands{divided};
  if (zero) operands.push_back(*zero);
  c.set_output(0, l.pointwise(operands, [&](BodyBuilder& b, std::span<const ValueId> v) {
    ValueId number = v[0];
    if (always_adds) {
      // As ONNX's evaluator: with a zero point, negative zeros become positive.
      const ValueId n = zero ? to_number(b, v[1]) : b.constant_of(DType::f32, 0);
      number = b.binary(OpCode::add, number, b.cast(n, b.dtype(number)));
    } else if (zero) {
      // 8-bit floats to which nothing is added keep the sign of their zeros.
      const ValueId n = b.cast(to_number(b, v[1]), b.dtype(number));
      number = b.where(b.binary(OpCode::eq, n, b.constant_of(b.dtype(n), 0)), number,
                       b.binary(OpCode::add, number, n));
    }
    return cast_element(b, number, to, options);
  }));
}

// Records the constants from which the result is made, if it is an f32 matrix.
void describe_matrix(OpContext& c) {
  const auto known = [&](int k) -> std::optional<Tensor> {
    const std::optional<Tensor>& constant = c.value(k).constant;
    return constant && constant->data.same_on_all_ranks() ? constant : std::nullopt;
  };
  const std::optional<Tensor> x = known(0), scale = known(1);
  if (!x || !scale || x->sizes.size() != 2 || !is_float(scale->dtype)) return;
  QuantisedMatrix matrix{*x, *scale, std::nullopt, 0, c.int_attribute("block_size", 0)};
  if (c.has_input(2)) {
    matrix.zero = known(2);
    if (!matrix.zero) return;
  }
  if (scale->count() != 1 || matrix.block > 0)
    matrix.axis = c.normalize_axis(c.int_attribute("axis", 1), 2, "attribute 'axis'");
  c.set_quantised(std::move(matrix));
}

void lower_dequantize(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const DType to = type_attribute(c, "output_dtype").value_or(c.dtype(1));
  if (!is_float(to))
    c.fail(errors::kUnsupportedType, fmt::format("the result would be {}", to_string(to)),
           "set attribute 'output_dtype' to a floating-point type");
  if (c.has_input(2)) require_zero_type(c, 2, c.dtype(0));
  Parameters parameters(c);
  const TensorBox x = c.input(0), scale = parameters.scale();
  const std::optional<TensorBox> zero = parameters.zero();
  if (to == DType::f32) describe_matrix(c);
  TensorBox difference;
  if (number_type(x.dtype()) == DType::f32) {
    difference = cast_tensor(l, x, DType::f32);
    if (zero) difference = binary(l, OpCode::sub, difference, cast_tensor(l, *zero, DType::f32));
  } else {
    difference = centred(l, x, zero ? std::optional(cast_tensor(l, *zero, DType::i32)) : std::nullopt);
  }
  c.set_output(0, l.cast(scaled(l, difference, cast_tensor(l, scale, DType::f32)), to));
}

void lower_dynamic_quantize(OpContext& c) {
  const DynamicallyQuantised q = dynamically_quantised(c.lowering(), c.input(0));
  c.set_output(0, q.values);
  c.set_output(1, q.scale);
  c.set_output(2, q.zero);
}

constexpr TypeSet kNumbersIn = {DType::f32, DType::f16, DType::bf16, DType::i32};

}  // namespace

std::span<const OpSpec> quantize_linear_ops() {
  static const OpSpec ops[] = {
      {"", "DequantizeLinear", 10, kNewestOpset, kStored | TypeSet{DType::i32}, lower_dequantize,
       work::pointwise(5), rule::kQuantisation, kNoState, kNoSizes},
      {"", "DynamicQuantizeLinear", 11, kNewestOpset, TypeSet{DType::f32}, lower_dynamic_quantize,
       work::reduction(16, 3), rule::kDynamicQuantize, kNoState, kNoSizes},
      {"", "QuantizeLinear", 10, kNewestOpset, kNumbersIn, lower_quantize, work::pointwise(15),
       rule::kQuantisation, kNoState, kNoSizes},
      {kMicrosoftDomain, "DequantizeLinear", 1, 1, kStored | TypeSet{DType::i32}, lower_dequantize,
       work::pointwise(5), rule::kQuantisation, kNoState, kNoSizes},
      {kMicrosoftDomain, "QuantizeLinear", 1, 1, kNumbersIn, lower_quantize, work::pointwise(15),
       rule::kQuantisation, kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
