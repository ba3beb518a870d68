#include "codegen/cuda/gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "codegen/cuda/kernel.h"
#include "codegen/cuda/scalar.h"
#include "ir/error.h"
#include "ir/post_ops.h"
#include "ir/typing.h"

namespace braid::codegen::cuda {
namespace {

using ir::DType;
using ir::Expr;

const char* library_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "GemmType::kFloat32";
    case DType::f16:
      return "GemmType::kFloat16";
    case DType::bf16:
      return "GemmType::kBFloat16";
    default:
      return nullptr;
  }
}

constexpr std::size_t kMostBatches = 8;  // device::kMostGemmBatches

struct Matrix {
  bool transposed = false;
  Expr leading = 0;  // 0: dense
};

// The last two dimensions as a matrix with a leading dimension.
std::optional<Matrix> matrix_of(const ir::TensorRef& ref) {
  const std::size_t n = ref.sizes.size();
  const Expr rows = ref.sizes[n - 2], columns = ref.sizes[n - 1], down = ref.strides[n - 2],
             across = ref.strides[n - 1];
  const auto fits = [](Expr inner_size, Expr inner_stride, Expr outer_size, Expr outer_stride) {
    return (inner_stride.is_constant(1) || inner_size.is_constant(1)) &&
           (outer_size.is_constant(1) ||
            (ir::provably_non_negative(outer_stride - inner_size) && !outer_stride.is_constant(0)));
  };
  if (fits(columns, across, rows, down)) return Matrix{false, rows.is_constant(1) ? Expr(0) : down};
  if (fits(rows, down, columns, across)) return Matrix{true, columns.is_constant(1) ? Expr(0) : across};
  return std::nullopt;
}

// Batch dimensions; neighbours are merged if one stride describes both.
std::vector<GemmPlan::Batch> batches(const ir::Product& gemm) {
  std::vector<GemmPlan::Batch> out;
  for (std::size_t d = 0; d + 2 < gemm.out.sizes.size(); ++d) {
    const GemmPlan::Batch next{gemm.out.sizes[d], gemm.a.strides[d], gemm.b.strides[d], gemm.out.strides[d]};
    if (next.size.is_constant(1)) continue;
    if (!out.empty()) {
      GemmPlan::Batch& last = out.back();
      if (last.a == next.a * next.size && last.b == next.b * next.size && last.d == next.d * next.size) {
        last = {last.size * next.size, next.a, next.b, next.d};
        continue;
      }
    }
    out.push_back(next);
  }
  return out;
}

// What all addresses are multiples of that lie these bytes behind the beginning of a buffer, at most 16; the places of
// buffers are multiples of that.
std::int64_t alignment_of(const ir::Graph& graph, ir::BufferId buffer, const std::vector<Expr>& bytes) {
  std::int64_t common = 16;
  const auto add = [&](Expr e) {
    for (const ir::Term& term : ir::terms(e)) common = std::gcd(common, term.coefficient);
  };
  add(ir::region(graph, buffer).offset);
  for (Expr e : bytes) add(e);
  return common;
}

std::int64_t alignment_of(const ir::Graph& graph, const ir::TensorRef& ref,
                          const std::vector<Expr>& strides) {
  const std::int64_t item = ir::size_of(graph[ref.buffer].dtype);
  std::vector<Expr> bytes = {ref.offset * item};
  for (Expr stride : strides) bytes.push_back(stride * item);
  return alignment_of(graph, ref.buffer, bytes);
}

struct Operands {
  Matrix a, b, d;
  // Bytes that the addresses of all their matrices are multiples of, at most 16.
  std::int64_t alignment_a, alignment_b, alignment_d;
};

// nullopt if the library does not support the product.
std::optional<Operands> operands_of(const ir::Graph& graph, const ir::Product& gemm) {
  const DType in = graph[gemm.a.buffer].dtype;
  if (library_type(in) == nullptr || graph[gemm.b.buffer].dtype != in ||
      library_type(graph[gemm.out.buffer].dtype) == nullptr)
    return std::nullopt;
  if (gemm.out.sizes.size() < 2 || gemm.a.sizes.size() != gemm.out.sizes.size() ||
      gemm.b.sizes.size() != gemm.out.sizes.size()) {
    return std::nullopt;
  }
  const std::optional<Matrix> a = matrix_of(gemm.a), b = matrix_of(gemm.b), d = matrix_of(gemm.out);
  const std::vector<GemmPlan::Batch> levels = batches(gemm);
  if (!a || !b || !d || levels.size() > kMostBatches) return std::nullopt;
  std::vector<Expr> steps_a, steps_b, steps_d;
  for (const GemmPlan::Batch& level : levels) {
    steps_a.push_back(level.a);
    steps_b.push_back(level.b);
    steps_d.push_back(level.d);
  }
  const Operands out = {*a,
                        *b,
                        *d,
                        alignment_of(graph, gemm.a, steps_a),
                        alignment_of(graph, gemm.b, steps_b),
                        alignment_of(graph, gemm.out, steps_d)};
  // cuBLAS does not look at the addresses in arrays, and its kernels for halves read 16 bytes at once.
  if (levels.size() > 1 && in != DType::f32 &&
      std::min({out.alignment_a, out.alignment_b, out.alignment_d}) < 16)
    return std::nullopt;
  return out;
}

// The library's name of an activation.
const char* library_activation(ir::PostOp::Kind kind) {
  switch (kind) {
    case ir::PostOp::Kind::relu:
      return "GemmEpilogue::kRelu";
    case ir::PostOp::Kind::gelu_tanh:
      return "GemmEpilogue::kGelu";
    default:
      return nullptr;
  }
}

}  // namespace

std::size_t post_ops_taken(const ir::Graph& graph, const ir::Product& product) {
  const std::optional<Operands> operands = operands_of(graph, product);
  if (!operands) return kAnyEpilogue;
  // Arrays of pointers come without epilogues.
  const bool by_pointers = batches(product).size() > 1;
  std::size_t taken = 0;
  for (const ir::PostOp& op : product.post_ops) {
    if (by_pointers && op.kind != ir::PostOp::Kind::identity) return taken;
    if (op.kind == ir::PostOp::Kind::add_vector) {
      // Only one, in the type of the output, at a multiple of 16 bytes. A column-major output is computed as its transpose, in which the
      // vector would run along the rows.
      const ir::BufferId vector = ir::operand_buffer(product, op);
      const std::int64_t item = ir::size_of(graph[vector].dtype);
      if (taken > 0 || operands->d.transposed || graph[vector].dtype != graph[product.out.buffer].dtype ||
          alignment_of(graph, vector, {ir::operand_offset(graph, product, op) * item}) < 16)
        return taken;
    } else if (op.kind != ir::PostOp::Kind::identity) {
      return taken + (library_activation(op.kind) != nullptr);
    }
    ++taken;
  }
  return taken;
}

std::optional<GemmPlan> plan_gemm(const ir::Graph& graph, ir::OpId op, const MemoryMap& memory) {
  const auto& gemm = *graph[op].as<ir::Gemm>();
  const std::optional<Operands> operands = operands_of(graph, gemm);
  if (!operands) return std::nullopt;
  ir::internal_check(!gemm.epilogue || ir::named_to_the_end(gemm),
                     "the library does not have the epilogue of '{}': the schedule is not legalised",
                     graph[op].name);
  const Matrix &a = operands->a, &b = operands->b, &d = operands->d;
  GemmPlan plan;
  std::vector<GemmPlan::Batch> levels = batches(gemm);
  const std::size_t n = gemm.out.sizes.size();
  Expr m_size = gemm.out.sizes[n - 2], n_size = gemm.out.sizes[n - 1];
  const auto pointer = [&](const ir::TensorRef& ref) { return memory.pointer(ref.buffer, ref.offset); };
  plan.a = pointer(gemm.a);
  plan.b = pointer(gemm.b);
  plan.d = pointer(gemm.out);
  plan.bias = "nullptr";
  std::int64_t alignment_a = operands->alignment_a, alignment_b = operands->alignment_b;
  bool transpose_a = a.transposed, transpose_b = b.transposed;
  Expr lda = a.leading, ldb = b.leading;
  if (d.transposed) {  // D^T = B^T A^T
    std::swap(plan.a, plan.b);
    std::swap(alignment_a, alignment_b);
    std::swap(m_size, n_size);
    for (GemmPlan::Batch& o : levels) std::swap(o.a, o.b);
    transpose_a = !b.transposed;
    transpose_b = !a.transposed;
    std::swap(lda, ldb);
  }
  std::string text = fmt::format(".m = {}, .n = {}, .k = {}", host_expr(m_size), host_expr(n_size),
                                 host_expr(gemm.a.sizes[n - 1]));
  const auto field = [&](const char* name, const std::string& value) {
    text += fmt::format(", .{} = {}", name, value);
  };
  const auto expr_field = [&](const char* name, Expr value) {
    if (!value.is_constant(0)) field(name, host_expr(value));
  };
  if (transpose_a) field("transpose_a", "true");
  if (transpose_b) field("transpose_b", "true");
  expr_field("lda", lda);
  expr_field("ldb", ldb);
  expr_field("ldd", d.leading);
  if (levels.size() == 1) {
    expr_field("batch", levels[0].size);
    expr_field("stride_a", levels[0].a);
    expr_field("stride_b", levels[0].b);
    expr_field("stride_d", levels[0].d);
  } else if (!levels.empty()) {
    Expr count = 1;
    for (const GemmPlan::Batch& level : levels) count = count * level.size;
    expr_field("batch", count);
    field("batch_by_pointers", "true");
    plan.batches = std::move(levels);
  }
  field("input_type", library_type(graph[gemm.a.buffer].dtype));
  field("output_type", library_type(graph[gemm.out.buffer].dtype));
  const auto alignment = [&](const char* name, std::int64_t bytes) {
    if (bytes < 16) field(name, std::to_string(bytes));
  };
  alignment("alignment_a", alignment_a);
  alignment("alignment_b", alignment_b);
  alignment("alignment_d", operands->alignment_d);
  for (const ir::PostOp& step : gemm.post_ops) {
    if (step.kind == ir::PostOp::Kind::add_vector) {
      field("has_bias", "true");
      plan.bias = memory.pointer(ir::operand_buffer(gemm, step), ir::operand_offset(graph, gemm, step));
    } else if (step.kind != ir::PostOp::Kind::identity) {
      field("epilogue", library_activation(step.kind));
    }
  }
  plan.problem = text;
  return plan;
}

}  // namespace braid::codegen::cuda
