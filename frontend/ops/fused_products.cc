// Products and convolutions of com.microsoft: of transposed operands, with a residual or an activation.
#include <algorithm>

#include "frontend/ops/activation_formulas.h"
#include "frontend/ops/convolution.h"
#include "frontend/ops/matmul.h"
#include "frontend/ops/named_activation.h"
#include "frontend/ops/operand_sizes.h"
#include "frontend/schemas.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

// Returns operand k. A batch transposition moves the first axis before the last one; then the last two change
// places if `transposed` is set. Vectors stay as they are.
TensorBox operand(OpContext& c, int k, const char* transposed, const char* batch_transposed) {
  const int rank = c.rank(k);
  if (rank == 0) c.fail(errors::kShapeMismatch, "an operand is a scalar");
  std::vector<int> order(static_cast<std::size_t>(rank));
  for (int d = 0; d < rank; ++d) order[static_cast<std::size_t>(d)] = d;
  if (rank >= 3 && c.int_attribute(batch_transposed, 0) != 0)
    std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
  if (rank >= 2 && c.int_attribute(transposed, 0) != 0) std::swap(order[order.size() - 2], order.back());
  return c.lowering().permute(c.input(k), order);
}

void lower_fused_matmul(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const TensorBox a = operand(c, 0, "transA", "transBatchA"), b = operand(c, 1, "transB", "transBatchB");
  check_product(c, a.sizes().back(), b.sizes()[b.rank() == 1 ? 0 : b.rank() - 2]);
  c.set_output(0, scaled_by(l, l.matmul(a, b), c.float_attribute("alpha", 1)));
}

std::optional<double> parameter(OpContext& c, const char* name) {
  if (!c.has_attribute(name)) return std::nullopt;
  return c.float_attribute(name, 0);
}

void lower_fused_gemm(OpContext& c) {
  const std::vector<std::optional<double>> parameters = {
      parameter(c, "activation_alpha"), parameter(c, "activation_beta"), parameter(c, "activation_gamma")};
  c.set_output(0, activated(c, gemm(c), c.string_attribute("activation", ""), parameters));
}

void lower_gemm_fast_gelu(OpContext& c) {
  ir::Lowering& l = c.lowering();
  if (c.rank(0) == 0 || c.rank(1) != 2) c.fail(errors::kShapeMismatch, "the second operand must be a matrix");
  check_product(c, c.size(0, -1), c.size(1, 0));
  TensorBox y = l.matmul(c.input(0), c.input(1));
  if (c.has_input(2)) {
    require_sizes(c, 2, {c.size(1, 1)}, "the number of columns of the weights");
    y = binary(l, OpCode::add, y, c.input(2));
  }
  const DType dtype = y.dtype(), compute = compute_type(dtype);
  c.set_output(0, l.pointwise({y}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    return b.cast(gelu_by_tanh(b, b.cast(v[0], compute)), dtype);
  }));
}

// The convolution plus a residual, under an activation.
TensorBox fused_convolution(OpContext& c) {
  ir::Lowering& l = c.lowering();
  TensorBox y = convolution(c, false);
  if (c.has_input(3)) {
    require_sizes(c, 3, y.sizes(), "the sizes of the result");
    y = binary(l, OpCode::add, y, c.input(3));
  }
  std::vector<std::optional<double>> parameters;
  for (const float p : c.floats_attribute("activation_params").value_or(std::vector<float>()))
    parameters.emplace_back(p);
  return activated(c, y, c.string_attribute("activation", ""), parameters);
}

void lower_fused_conv(OpContext& c) { c.set_output(0, fused_convolution(c)); }

// Input k with its channels, which are last, after the first axis.
Value channels_second(OpContext& c, int k) {
  const int rank = c.rank(k);
  if (rank < 3)
    c.fail(errors::kShapeMismatch, fmt::format("input {} has rank {}, expected at least 3", k, rank));
  std::vector<int> order = {0, rank - 1};
  for (int d = 1; d < rank - 1; ++d) order.push_back(d);
  Value v{c.value(k).name, c.dtype(k)};
  v.box = c.lowering().permute(c.input(k), order);
  v.sizes = v.box.sizes();
  return v;
}

// Input, residual and result have their channels last. NhwcFusedConv leaves the weights in Conv's layout.
// Those of NhwcConv, whose schema says the same, are transposed by the optimiser that writes it.
template <bool weights_too>
void lower_channels_last(OpContext& c) {
  ir::Lowering& l = c.lowering();
  Value x = channels_second(c, 0), w, residual;
  std::vector<Value*> inputs = {&x, &c.value(1), c.has_input(2) ? &c.value(2) : nullptr};
  if (weights_too) {
    w = channels_second(c, 1);
    inputs[1] = &w;
  }
  if (c.has_input(3)) {
    residual = channels_second(c, 3);
    inputs.push_back(&residual);
  }
  OpContext inner = c.with(inputs);
  const TensorBox y = fused_convolution(inner);
  std::vector<int> order = {0};
  for (int d = 2; d < static_cast<int>(y.rank()); ++d) order.push_back(d);
  order.push_back(1);
  c.set_output(0, l.permute(y, order));
}

constexpr TypeSet kReal = {DType::f32, DType::f64, DType::f16};

}  // namespace

std::span<const OpSpec> fused_product_ops() {
  static const OpSpec ops[] = {
      {kMicrosoftDomain, "FusedConv", 1, 1, kReal, lower_fused_conv, work::convolution(0, 1),
       rule::kFusedConv, kNoState, kNoSizes},
      {kMicrosoftDomain, "FusedGemm", 1, 1, kReal, lower_fused_gemm, work::product(0, 1), rule::kFusedGemm,
       kNoState, kNoSizes},
      {kMicrosoftDomain, "FusedMatMul", 1, 1, kFloats, lower_fused_matmul, work::product(0, 1),
       rule::kFusedMatMul, kNoState, kNoSizes},
      {kMicrosoftDomain, "GemmFastGelu", 1, 1, TypeSet{DType::f32, DType::f16, DType::bf16},
       lower_gemm_fast_gelu, work::product(0, 1), rule::kProductAndFunction, kNoState, kNoSizes},
      {kMicrosoftDomain, "NhwcConv", 1, 1, kReal, lower_channels_last<true>, work::convolution(0, 1),
       rule::kNhwcConv, kNoState, kNoSizes},
      {kMicrosoftDomain, "NhwcFusedConv", 1, 1, TypeSet{DType::f32, DType::f16}, lower_channels_last<false>,
       work::convolution(0, 1), rule::kNhwcFusedConv, kNoState, kNoSizes},
      {kMicrosoftDomain, "TransposeMatMul", 1, 1, kFloats, lower_fused_matmul, work::product(0, 1),
       rule::kFusedMatMul, kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
