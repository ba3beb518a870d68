// Products and convolutions of quantised tensors: integers less their zero points are multiplied and
// accumulated in i32; the sums times the product of the scales are the numbers.
#include <cmath>
#include <vector>

#include "frontend/ops/convolution.h"
#include "frontend/ops/operand_sizes.h"
#include "frontend/ops/quantised.h"
#include "frontend/schemas.h"
#include "ir/element.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

enum class Side { rows, columns };

bool one_each(const std::vector<Expr>& sizes) {
  for (const Expr& s : sizes) {
    if (!s.is_constant(1)) return false;
  }
  return true;
}

// Returns a scale or zero point of a matrix: for all of it, for each row or column, or of the matrix's rank
// with one column (row).
TensorBox of_matrix(OpContext& c, int k, const std::vector<Expr>& matrix, Side side, const char* what) {
  ir::Lowering& l = c.lowering();
  const std::vector<Expr> given = c.sizes(k);
  if (one_each(given)) return one_element(c, k, what);
  const auto refuse = [&](const std::string& why) {
    c.fail(errors::kShapeMismatch, fmt::format("{} {}", what, why));
  };
  const auto require = [&](Expr size, Expr expected) {
    if (size.is_constant() && expected.is_constant() && !(size == expected))
      refuse(fmt::format("has size {}, expected {}", to_string(size), to_string(expected)));
    l.require_equal(size, expected);
  };
  const std::size_t rank = matrix.size();
  if (rank < 2 || (given.size() != 1 && given.size() != rank))
    refuse(fmt::format("has rank {}, but its operand has rank {}", given.size(), rank));
  const std::size_t along = side == Side::rows ? rank - 2 : rank - 1,
                    other = side == Side::rows ? rank - 1 : rank - 2;
  const TensorBox box = c.input(k);
  if (given.size() == 1) {
    require(given[0], matrix[along]);
    return side == Side::rows ? l.unsqueeze(box, 1) : box;
  }
  for (std::size_t d = 0; d < rank; ++d) {
    if (d != other && given[d].is_constant(1)) continue;
    require(given[d], d == other ? Expr(1) : matrix[d]);
  }
  return box;
}

struct Matrix {
  TensorBox centred;  // i32
  TensorBox scale;    // broadcasts against the product
};

Matrix matrix_of(OpContext& c, const QuantisedInput& in, Side side, bool transposed = false) {
  ir::Lowering& l = c.lowering();
  if (c.rank(in.tensor) == 0) c.fail(errors::kShapeMismatch, "an operand is a scalar");
  check_scale(c, in.scale);
  TensorBox x = c.input(in.tensor);
  if (transposed) x = l.permute(x, {1, 0});
  std::optional<TensorBox> zero;
  if (c.has_input(in.zero)) {
    require_zero_type(c, in.zero, x.dtype());
    const TensorBox box = of_matrix(c, in.zero, x.sizes(), side, "the zero point");
    if (!is_absent_or_zero(c, in.zero)) zero = l.cast(box, DType::i32);
  }
  return {centred(l, x, zero), of_matrix(c, in.scale, x.sizes(), side, "the scale")};
}

void check_inner(OpContext& c, const TensorBox& a, const TensorBox& b) {
  const Expr inner = a.sizes().back(), other = b.sizes()[b.rank() == 1 ? 0 : b.rank() - 2];
  if (inner.is_constant() && other.is_constant() && !(inner == other))
    c.fail(errors::kShapeMismatch,
           fmt::format("the inner sizes {} and {} differ", to_string(inner), to_string(other)));
}

// The elements of a constant, in order; empty if it is none.
std::vector<double> known_elements(OpContext& c, int k) {
  const Value& v = c.value(k);
  std::vector<double> elements;
  if (!v.constant || !v.constant->data.same_on_all_ranks() || !is_float(v.dtype)) return elements;
  for (std::int64_t i = 0; i < v.constant->count(); ++i) elements.push_back(float_at(*v.constant, i));
  return elements;
}

// Returns the scale factor * a * b / divisor in the type of a. `inputs` are the input numbers of a, b and
// divisor. Constants are computed now.
TensorBox combined(OpContext& c, const std::vector<int>& inputs, const TensorBox& a, const TensorBox& b,
                   const std::optional<TensorBox>& divisor, double factor = 1) {
  ir::Lowering& l = c.lowering();
  const DType type = a.dtype();
  std::vector<std::vector<double>> known;
  std::size_t count = 1, vectors = 0;
  TensorBox shape = a;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    known.push_back(known_elements(c, inputs[k]));
    if (known.back().size() == 1) continue;
    count = known.back().size();
    shape = k == 0 ? a : k == 1 ? b : *divisor;
    ++vectors;
  }
  if (count > 0 && vectors <= 1) {
    const auto at = [&](std::size_t k, std::size_t i) { return known[k][known[k].size() == 1 ? 0 : i]; };
    std::vector<std::byte> bytes(count * static_cast<std::size_t>(ir::size_of(type)));
    double value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      value = ir::round_to(type, factor * at(0, i));
      value = ir::round_to(type, value * at(1, i));
      if (divisor) value = ir::round_to(type, value / at(2, i));
      ir::write_element(type, bytes.data() + i * static_cast<std::size_t>(ir::size_of(type)), value);
    }
    if (vectors == 0) return l.scalar(type, value);
    std::vector<std::int64_t> sizes;
    for (const Expr& s : shape.sizes()) sizes.push_back(s.constant());
    return l.constant(c.value(inputs[0]).name + ".product", type, sizes, ir::own_bytes(std::move(bytes)));
  }
  TensorBox all = a;
  if (factor != 1) all = binary(l, OpCode::mul, l.scalar(type, factor), all);
  all = binary(l, OpCode::mul, all, b);
  if (divisor) all = binary(l, OpCode::div, all, *divisor);
  return l.realize(all);
}

TensorBox requantised(ir::Lowering& l, const TensorBox& sums, const TensorBox& factor,
                      const std::optional<TensorBox>& zero, DType to) {
  return rounded_to(l, scaled(l, sums, factor), zero, to);
}

// The type of a result, which is that of its zero point.
DType quantised_type(OpContext& c, int zero) {
  if (!kQuantisedBytes.contains(c.dtype(zero)))
    c.fail(errors::kUnsupportedType,
           fmt::format("the zero point of the result is {}, expected i8 or u8", to_string(c.dtype(zero))));
  return c.dtype(zero);
}

void lower_qlinear_matmul(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const Matrix a = matrix_of(c, {0, 1, 2}, Side::rows), b = matrix_of(c, {3, 4, 5}, Side::columns);
  check_inner(c, a.centred, b.centred);
  if (!kQuantisedBytes.contains(c.dtype(3)))
    c.fail(errors::kUnsupportedType,
           fmt::format("the second operand is {}, expected i8 or u8", to_string(c.dtype(3))));
  const TensorBox sums = l.matmul(a.centred, b.centred);
  check_scale(c, 6);
  const DType to = quantised_type(c, 7);
  const TensorBox divisor = of_matrix(c, 6, sums.sizes(), Side::rows, "the scale of the result");
  const TensorBox zero = of_matrix(c, 7, sums.sizes(), Side::rows, "the zero point of the result");
  c.set_output(
      0, requantised(l, sums, combined(c, {1, 4, 6}, a.scale, b.scale, divisor),
                     is_absent_or_zero(c, 7) ? std::nullopt : std::optional(l.cast(zero, DType::i32)), to));
}

// (A B + C) * alpha * the scales; a result without a scale is a number.
void lower_qgemm(OpContext& c) {
  ir::Lowering& l = c.lowering();
  if (c.rank(0) != 2 || c.rank(3) != 2) c.fail(errors::kShapeMismatch, "operands must be matrices");
  const Matrix a = matrix_of(c, {0, 1, 2}, Side::rows, c.int_attribute("transA", 0) != 0),
               b = matrix_of(c, {3, 4, 5}, Side::columns, c.int_attribute("transB", 0) != 0);
  check_inner(c, a.centred, b.centred);
  TensorBox sums = l.matmul(a.centred, b.centred);
  if (c.has_input(6)) sums = binary(l, OpCode::add, sums, c.input(6));
  const double alpha = c.float_attribute("alpha", 1);
  if (!c.has_input(7)) {
    return c.set_output(0, scaled(l, sums, combined(c, {1, 4}, a.scale, b.scale, std::nullopt, alpha)));
  }
  const DType to = c.has_input(8) ? quantised_type(c, 8) : c.dtype(0);
  const TensorBox factor = combined(c, {1, 4, 7}, a.scale, b.scale, one_scale(c, 7, true), alpha);
  c.set_output(0, requantised(l, sums, factor, one_zero(c, 8, to), to));
}

// With the bias of input `bias` added, in the type of the scales.
TensorBox as_number(OpContext& c, const TensorBox& sums, const TensorBox& factor, int bias, DType type) {
  ir::Lowering& l = c.lowering();
  TensorBox y = scaled(l, sums, factor);
  if (c.has_input(bias)) y = binary(l, OpCode::add, y, l.cast(c.input(bias), DType::f32));
  return l.cast(y, type);
}

void lower_matmul_integer_to_float(OpContext& c) {
  const Matrix a = matrix_of(c, {0, 2, 4}, Side::rows), b = matrix_of(c, {1, 3, 5}, Side::columns);
  check_inner(c, a.centred, b.centred);
  const TensorBox factor = combined(c, {2, 3}, a.scale, b.scale, std::nullopt);
  c.set_output(0, as_number(c, c.lowering().matmul(a.centred, b.centred), factor, 6, c.dtype(2)));
}

void lower_dynamic_quantize_matmul(OpContext& c) {
  ir::Lowering& l = c.lowering();
  if (c.rank(0) == 0) c.fail(errors::kShapeMismatch, "an operand is a scalar");
  const Matrix b = matrix_of(c, {1, 2, 3}, Side::columns);
  check_inner(c, c.input(0), b.centred);
  const DynamicallyQuantised a = dynamically_quantised(l, c.input(0));
  const TensorBox sums = l.matmul(centred(l, a.values, l.cast(a.zero, DType::i32)), b.centred);
  const TensorBox factor = l.realize(binary(l, OpCode::mul, a.scale, b.scale));
  c.set_output(0, as_number(c, sums, factor, 4, DType::f32));
}

// Returns a scale or zero point of weights: one, or one per filter, which broadcasts along axis `filter` of
// `rank` axes.
TensorBox per_filter(OpContext& c, int k, Expr filters, std::size_t filter, std::size_t rank,
                     const char* what) {
  ir::Lowering& l = c.lowering();
  if (one_each(c.sizes(k))) return one_element(c, k, what);
  if (c.rank(k) != 1)
    c.fail(errors::kShapeMismatch, fmt::format("{} has rank {}, expected at most 1", what, c.rank(k)));
  const Expr given = c.size(k, 0);
  if (given.is_constant() && filters.is_constant() && !(given == filters)) {
    c.fail(errors::kShapeMismatch,
           fmt::format("{} has {} values for {} filters", what, to_string(given), to_string(filters)));
  }
  l.require_equal(given, filters);
  TensorBox box = c.input(k);
  for (std::size_t d = filter + 1; d < rank; ++d) box = l.unsqueeze(box, static_cast<int>(d - filter));
  return box;
}

void lower_qlinear_conv(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const bool last = c.int_attribute("channels_last", 0) != 0;
  TensorBox x = c.input(0);
  const TensorBox w = c.input(3);
  const int rank = static_cast<int>(x.rank());
  if (rank < 3)
    c.fail(errors::kShapeMismatch, fmt::format("the input has rank {}, expected at least 3", rank));
  if (last) {
    std::vector<int> order = axes_from(1, rank - 1);
    order.insert(order.begin(), {0, rank - 1});
    x = l.permute(x, order);
  }
  if (w.rank() == 0) c.fail(errors::kShapeMismatch, "the weights are a scalar");
  if (!kQuantisedBytes.contains(w.dtype()))
    c.fail(errors::kUnsupportedType,
           fmt::format("the weights are {}, expected i8 or u8", to_string(w.dtype())));
  const Expr filters = w.sizes()[0];
  check_scale(c, 4);
  std::optional<TensorBox> zero;
  if (c.has_input(5)) {
    require_zero_type(c, 5, w.dtype());
    const TensorBox box = per_filter(c, 5, filters, 0, w.rank(), "the zero point of the weights");
    if (!is_absent_or_zero(c, 5)) zero = l.cast(box, DType::i32);
  }
  TensorBox sums = convolved(c, centred(l, x, one_zero(c, 2, x.dtype())), centred(l, w, zero), false);
  if (c.has_input(8)) {
    if (c.dtype(8) != DType::i32)
      c.fail(errors::kTypeMismatch, fmt::format("the bias is {}, expected i32", to_string(c.dtype(8))));
    sums = binary(l, OpCode::add, sums, per_filter(c, 8, filters, 1, x.rank(), "the bias"));
  }
  const DType to = quantised_type(c, 7);
  const TensorBox factor =
      combined(c, {1, 4, 6}, one_scale(c, 1),
               per_filter(c, 4, filters, 1, x.rank(), "the scale of the weights"), one_scale(c, 6));
  TensorBox y = requantised(l, sums, factor, one_zero(c, 7, to), to);
  if (last) {
    std::vector<int> order = axes_from(2, rank);
    order.insert(order.begin(), 0);
    order.push_back(1);
    y = l.permute(y, order);
  }
  c.set_output(0, y);
}

}  // namespace

std::span<const OpSpec> quantised_product_ops() {
  static const OpSpec ops[] = {
      {"", "QLinearConv", 10, kNewestOpset, kQuantisedBytes, lower_qlinear_conv, work::convolution(0, 3),
       rule::kQLinearConv, kNoState, kNoSizes},
      {"", "QLinearMatMul", 10, kNewestOpset, kQuantisedBytes, lower_qlinear_matmul, work::product(0, 3),
       rule::kQLinearMatMul, kNoState, kNoSizes},
      {kMicrosoftDomain, "DynamicQuantizeMatMul", 1, 1, TypeSet{DType::f32}, lower_dynamic_quantize_matmul,
       work::product(0, 1).in_passes(4), rule::kDynamicQuantizeMatMul, kNoState, kNoSizes},
      {kMicrosoftDomain, "MatMulIntegerToFloat", 1, 1, kQuantisedBytes, lower_matmul_integer_to_float,
       work::product(0, 1), rule::kMatMulIntegerToFloat, kNoState, kNoSizes},
      {kMicrosoftDomain, "QGemm", 1, 1, kQuantisedBytes, lower_qgemm, work::product(0, 3), rule::kQGemm,
       kNoState, kNoSizes},
      {kMicrosoftDomain, "QLinearConv", 1, 1, kQuantisedBytes, lower_qlinear_conv, work::convolution(0, 3),
       rule::kQLinearConv, kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
