#include "codegen/cuda/gemm.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda/kernel.h"
#include "codegen/cuda/scalar.h"
#include "codegen/cuda/tile_product.h"
#include "ir/error.h"
#include "ir/post_ops.h"
#include "ir/typing.h"
#include "runtime/cuda_gemm_problem.h"

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

struct Batch {
  Expr size, a, b, d;  // elements
};

// Batch dimensions, outermost first; neighbours are merged if one stride describes both for all dims.
std::vector<Batch> batches(const ir::Product& gemm) {
  std::vector<Batch> out;
  for (std::size_t d = 0; d + 2 < gemm.out.sizes.size(); ++d) {
    const Batch next{gemm.out.sizes[d], gemm.a.strides[d], gemm.b.strides[d], gemm.out.strides[d]};
    if (next.size.is_constant(1)) continue;
    if (!out.empty()) {
      Batch& last = out.back();
      if (last.a == next.a * next.size && last.b == next.b * next.size && last.d == next.d * next.size) {
        last = {last.size * next.size, next.a, next.b, next.d};
        continue;
      }
    }
    out.push_back(next);
  }
  return out;
}

// Returns how many batch levels are left when the innermost become rows of one matrix, as far as symbols
// prove it. rt::cuda::folded does the same with numbers.
std::size_t unfolded_batches(const ir::Product& gemm, const Matrix& a, const Matrix& d) {
  std::vector<Batch> levels = batches(gemm);
  const std::size_t row = gemm.out.sizes.size() - 2;
  Expr rows = gemm.out.sizes[row];
  const auto follows = [&](Expr step, const Matrix& matrix, const ir::TensorRef& ref) {
    const Expr pitch = matrix.leading.is_constant(0) ? ref.sizes[row + 1] : matrix.leading;
    return !matrix.transposed && step == rows * pitch;
  };
  while (!levels.empty() && levels.back().b.is_constant(0) && follows(levels.back().a, a, gemm.a) &&
         follows(levels.back().d, d, gemm.out)) {
    rows = rows * levels.back().size;
    levels.pop_back();
  }
  return levels.size();
}

// Returns the bytes from the beginning of the buffer's storage, which is a multiple of 16 bytes, to an
// element; 0 if they are a multiple of 16.
Expr offset_bytes(const ir::Graph& graph, ir::BufferId buffer, Expr element) {
  const Expr bytes = ir::region(graph, buffer).offset + element * ir::size_of(graph[buffer].dtype);
  return ir::provably_multiple(bytes, 16) ? Expr(0) : bytes;
}

struct Operands {
  Matrix a, b, d;
};

bool has_library_types(const ir::Graph& graph, const ir::Product& gemm) {
  const DType in = graph[gemm.a.buffer].dtype;
  return library_type(in) != nullptr && graph[gemm.b.buffer].dtype == in &&
         library_type(graph[gemm.out.buffer].dtype) != nullptr;
}

// nullopt if the library does not support the product; then `why`, if given, says why.
std::optional<Operands> operands_of(const ir::Graph& graph, const ir::Product& gemm,
                                    std::string* why = nullptr) {
  const auto refuse = [&](std::string reason) {
    if (why != nullptr) *why = std::move(reason);
    return std::nullopt;
  };
  if (!has_library_types(graph, gemm)) {
    const auto type = [&](const ir::TensorRef& ref) { return to_string(graph[ref.buffer].dtype); };
    return refuse(
        fmt::format("it has no product of {} and {} to {}", type(gemm.a), type(gemm.b), type(gemm.out)));
  }
  if (gemm.out.sizes.size() < 2 || gemm.a.sizes.size() != gemm.out.sizes.size() ||
      gemm.b.sizes.size() != gemm.out.sizes.size())
    return refuse("its operands have unlike ranks");
  if (batches(gemm).size() > rt::cuda::kMostGemmBatches)
    return refuse(
        fmt::format("it has more than {} batch dimensions of unlike strides", rt::cuda::kMostGemmBatches));
  const std::optional<Matrix> a = matrix_of(gemm.a), b = matrix_of(gemm.b), d = matrix_of(gemm.out);
  if (a && b && d) return Operands{*a, *b, *d};
  return refuse(fmt::format("its {} is no matrix with a leading dimension, and a copy costs more",
                            !a   ? "left operand"
                            : !b ? "right operand"
                                 : "result"));
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

// Fields of an initializer. A size that is 0 is left out.
void add_field(std::string& text, const char* name, const std::string& value) {
  text += fmt::format(", .{} = {}", name, value);
}
void add_field(std::string& text, const char* name, Expr value) {
  if (!value.is_constant(0)) add_field(text, name, host_expr(value));
}

// Returns the offset of the matrix that is added, in bytes.
Expr add_post_ops(std::string& text, const ir::Graph& graph, const ir::Gemm& gemm, const MemoryMap& memory,
                  GemmPlan& plan) {
  Expr offset_c = 0;
  // In the order of GemmProblem's members.
  for (const ir::PostOp& step : gemm.post_ops) {
    if (step.kind != ir::PostOp::Kind::add_matrix) continue;
    const ir::BufferId added = ir::operand_buffer(gemm, step);
    const Expr at = ir::operand_offset(graph, gemm, step);
    add_field(text, "beta", "1");
    plan.residual = memory.pointer(added, at);
    offset_c = offset_bytes(graph, added, at);
  }
  for (const ir::PostOp& step : gemm.post_ops) {
    if (step.kind == ir::PostOp::Kind::add_vector) {
      add_field(text, "has_bias", "true");
      plan.bias = memory.pointer(ir::operand_buffer(gemm, step), ir::operand_offset(graph, gemm, step));
    } else if (step.kind == ir::PostOp::Kind::add_matrix) {
      continue;
    } else if (step.kind != ir::PostOp::Kind::identity) {
      add_field(text, "epilogue", library_activation(step.kind));
    }
  }
  return offset_c;
}

void add_levels(std::string& text, const std::vector<Batch>& levels) {
  if (levels.empty()) return;
  add_field(text, "levels", std::to_string(levels.size()));
  std::string steps;
  for (const Batch& o : levels)
    steps += fmt::format("{}{{{}, {}, {}, {}}}", steps.empty() ? "" : ", ", host_expr(o.size), host_expr(o.a),
                         host_expr(o.b), host_expr(o.d));
  add_field(text, "level", "{" + steps + "}");
}

std::size_t library_steps(const ir::Graph& graph, const ir::Product& product, const Operands& operands) {
  // The library rounds sums to the type of the operands or not at all.
  const DType in = graph[product.a.buffer].dtype, out = graph[product.out.buffer].dtype;
  if (out != in && out != DType::f32) return 0;
  // Arrays of pointers come without epilogues.
  const bool by_pointers = unfolded_batches(product, operands.a, operands.d) > 1;
  std::size_t taken = 0;
  bool bias = false, residual = false;
  for (const ir::PostOp& op : product.post_ops) {
    if (op.kind != ir::PostOp::Kind::identity) {
      if (by_pointers) return taken;
      const bool adds = op.kind == ir::PostOp::Kind::add_vector || op.kind == ir::PostOp::Kind::add_matrix;
      if (!adds) return taken + (library_activation(op.kind) != nullptr);
      // One of each, in the type of the output.
      bool& given = op.kind == ir::PostOp::Kind::add_vector ? bias : residual;
      const ir::BufferId added = ir::operand_buffer(product, op);
      if (given || graph[added].dtype != graph[product.out.buffer].dtype) return taken;
      given = true;
      // A bias lies at a multiple of 16 bytes. A column-major output is computed as its transpose, in which
      // the bias would run along the rows.
      if (&given == &bias &&
          (operands.d.transposed ||
           !offset_bytes(graph, added, ir::operand_offset(graph, product, op)).is_constant(0)))
        return taken;
    }
    ++taken;
  }
  return taken;
}

}  // namespace

ProductKernel kernel_of(const ir::Graph& graph, const ir::Product& product) {
  const std::optional<Operands> operands = operands_of(graph, product);
  if (!operands) return ProductKernel::naive;
  const bool finishes =
      !product.epilogue ||
      (ir::named_to_the_end(product) && library_steps(graph, product, *operands) == product.post_ops.size());
  return !finishes && takes_tile_product(graph, product) ? ProductKernel::tile : ProductKernel::library;
}

std::size_t post_ops_taken(const ir::Graph& graph, const ir::Product& product) {
  return kernel_of(graph, product) == ProductKernel::library
             ? library_steps(graph, product, *operands_of(graph, product))
             : kAnyEpilogue;
}

std::string why_not_library(const ir::Graph& graph, const ir::Product& product) {
  std::string why;
  operands_of(graph, product, &why);
  return why;
}

PackedOperands packed_operands(const ir::Graph& graph, const ir::Gemm& product) {
  const std::size_t n = product.out.sizes.size();
  if (!has_library_types(graph, product) || n < 2) return {};
  const Expr sums = ir::numel(product.out.sizes) * product.a.sizes[n - 1];
  if (ir::bounds(sums).max <= kMostNaive) return {};
  // All of them: then few batch dimensions are left.
  if (batches(product).size() > rt::cuda::kMostGemmBatches) return {true, true, true};
  return {!matrix_of(product.a), !matrix_of(product.b), !matrix_of(product.out)};
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
  std::vector<Batch> levels = batches(gemm);
  const std::size_t n = gemm.out.sizes.size();
  Expr m_size = gemm.out.sizes[n - 2], n_size = gemm.out.sizes[n - 1];
  const auto pointer = [&](const ir::TensorRef& ref) { return memory.pointer(ref.buffer, ref.offset); };
  plan.a = pointer(gemm.a);
  plan.b = pointer(gemm.b);
  plan.d = pointer(gemm.out);
  plan.bias = plan.residual = "nullptr";
  const auto offset = [&](const ir::TensorRef& ref) { return offset_bytes(graph, ref.buffer, ref.offset); };
  Expr offset_a = offset(gemm.a), offset_b = offset(gemm.b);
  bool transpose_a = a.transposed, transpose_b = b.transposed;
  Expr lda = a.leading, ldb = b.leading;
  if (d.transposed) {  // D^T = B^T A^T
    std::swap(plan.a, plan.b);
    std::swap(offset_a, offset_b);
    std::swap(m_size, n_size);
    for (Batch& o : levels) std::swap(o.a, o.b);
    transpose_a = !b.transposed;
    transpose_b = !a.transposed;
    std::swap(lda, ldb);
  }
  std::string text = fmt::format(".m = {}, .n = {}, .k = {}", host_expr(m_size), host_expr(n_size),
                                 host_expr(gemm.a.sizes[n - 1]));
  if (transpose_a) add_field(text, "transpose_a", "true");
  if (transpose_b) add_field(text, "transpose_b", "true");
  add_field(text, "lda", lda);
  add_field(text, "ldb", ldb);
  add_field(text, "ldd", d.leading);
  add_field(text, "input_type",
            gemm.tf32 ? "GemmType::kTensorFloat32" : library_type(graph[gemm.a.buffer].dtype));
  add_field(text, "output_type", library_type(graph[gemm.out.buffer].dtype));
  const Expr offset_c = add_post_ops(text, graph, gemm, memory, plan);
  text = fmt::format(".matrices = {{{}}}", text);
  add_levels(text, levels);
  add_field(text, "offset_a", offset_a);
  add_field(text, "offset_b", offset_b);
  add_field(text, "offset_c", offset_c);
  add_field(text, "offset_d", offset(gemm.out));
  plan.product = text;
  return plan;
}

}  // namespace braid::codegen::cuda
