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

struct Operands {
  Matrix a, b, d;
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
  if (!a || !b || !d || batches(gemm).size() > kMostBatches) return std::nullopt;
  return Operands{*a, *b, *d};
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

// What the addresses of an operand's matrices are multiples of, at most 16 bytes; the bases of all places are multiples of
// that.
std::int64_t alignment_of(const ir::Graph& graph, const MemoryMap& memory, const ir::TensorRef& ref,
                          const std::vector<Expr>& batch_strides) {
  std::int64_t common = 16;
  const auto add = [&](Expr bytes) {
    for (const ir::Term& term : ir::terms(bytes)) common = std::gcd(common, term.coefficient);
  };
  const std::int64_t item = ir::size_of(graph[ref.buffer].dtype);
  const ir::MemoryRegion region = ir::region(graph, ref.buffer);
  add(memory.place(region.storage)->offset);
  add(region.offset + ref.offset * item);
  for (Expr stride : batch_strides) add(stride * item);
  return common;
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
      // Only one, in the type of the output. A column-major output is computed as its transpose, in which the
      // vector would run along the rows.
      if (taken > 0 || operands->d.transposed ||
          graph[ir::operand_buffer(product, op)].dtype != graph[product.out.buffer].dtype)
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
  const auto& [a, b, d] = *operands;
  GemmPlan plan;
  std::vector<GemmPlan::Batch> levels = batches(gemm);
  const std::size_t n = gemm.out.sizes.size();
  Expr m_size = gemm.out.sizes[n - 2], n_size = gemm.out.sizes[n - 1];
  const auto pointer = [&](const ir::TensorRef& ref) { return memory.pointer(ref.buffer, ref.offset); };
  plan.a = pointer(gemm.a);
  plan.b = pointer(gemm.b);
  plan.d = pointer(gemm.out);
  plan.bias = "nullptr";
  std::vector<Expr> steps_a, steps_b, steps_d;
  for (const GemmPlan::Batch& level : levels) {
    steps_a.push_back(level.a);
    steps_b.push_back(level.b);
    steps_d.push_back(level.d);
  }
  std::int64_t alignment_a = alignment_of(graph, memory, gemm.a, steps_a),
               alignment_b = alignment_of(graph, memory, gemm.b, steps_b);
  const std::int64_t alignment_d = alignment_of(graph, memory, gemm.out, steps_d);
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
  alignment("alignment_d", alignment_d);
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
