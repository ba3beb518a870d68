#include "codegen/cpp/target.h"

#include "analysis/costs/machine.h"
#include "codegen/cpp/build_library.h"
#include "codegen/cpp/emit.h"
#include "codegen/cpp/program_emitter.h"
#include "ir/kernel_parts.h"
#include "ir/post_ops.h"
#include "runtime/window_kernels.h"

namespace braid::codegen::cpp {

using namespace ir;

namespace {

// Whether nothing is rounded to a half before the result is.
bool rounds_only_the_result(const LoopBody& epilogue) {
  for (const Instr& instr : epilogue.instrs) {
    const bool result = &instr == &epilogue[epilogue.result];
    if (instr.dtype != DType::f32 && !(result && instr.code == OpCode::cast)) return false;
  }
  return true;
}

// Whether the runtime computes the convolution, which has f16 or bf16 operands and constant weights
// (runtime/half_windows.h).
bool has_half_windows(const Graph& graph, const Product& product) {
  const DType type = graph[product.a.buffer].dtype, out = graph[product.out.buffer].dtype;
  const StorageId weights = root_storage(graph, product.b.buffer);
  return (type == DType::f16 || type == DType::bf16) && (out == DType::f32 || out == type) &&
         weights.valid() && graph[weights].kind == StorageKind::constant &&
         product.b.sizes.size() > product.out.sizes.size();
}

// The limits of the runtime's kernels (runtime/gemm.h): operands of f32, f16 or bf16, steps with f32
// operands, one scale. The program itself finishes tiles of integer sums.
std::size_t post_ops_taken(const Graph& graph, const Product& product) {
  if (is_byte_product(graph, product)) return can_finish(product) ? kAnyEpilogue : 0;
  const bool halves = (has_half_kernel(graph, product) || has_half_windows(graph, product)) &&
                      rounds_only_the_result(*product.epilogue);
  if (!halves &&
      (graph[product.out.buffer].dtype != DType::f32 || graph[product.a.buffer].dtype != DType::f32))
    return 0;
  std::size_t taken = 0;
  int scales = 0;
  for (const PostOp& op : product.post_ops) {
    scales += op.kind == PostOp::Kind::scale;
    if (taken == rt::kMaxPostOps || scales > 1) break;
    if (op.operand.valid() && graph[operand_buffer(product, op)].dtype != DType::f32) break;
    ++taken;
  }
  return taken;
}

bool at_least(Expr e, std::int64_t least) { return bounds(e).min >= least; }

// Whether the runtime computes the convolution of bytes (runtime/integer_windows.h).
bool has_byte_kernel(const Graph& graph, const Convolution& convolution) {
  const StorageId weights = root_storage(graph, convolution.b.buffer);
  return weights.valid() && graph[weights].kind == StorageKind::constant && !convolution.transposed &&
         convolution.windows.size() <= rt::kMaxSpatial && at_least(convolution.a.sizes.back(), 1) &&
         can_finish(convolution);
}

// Whether the runtime computes the pool (runtime/pool.h).
bool has_pool_kernel(const Graph& graph, const Pooling& pool) {
  return pool.kind != PoolKind::arg_max && pool.windows.size() <= rt::kMaxSpatial &&
         graph[pool.x.buffer].dtype == DType::f32 && graph[pool.out.buffer].dtype == DType::f32;
}

// Whether the runtime computes the convolution or pool (runtime/window_kernels.h).
bool has_window_kernel(const Graph& graph, const Operation& op) {
  if (const auto* pool = op.as<Pooling>()) return has_pool_kernel(graph, *pool);
  const Convolution& convolution = *op.as<Convolution>();
  const TensorRef &a = convolution.a, &out = convolution.out;
  if (is_byte_product(graph, convolution)) return has_byte_kernel(graph, convolution);
  const bool halves = has_half_windows(graph, convolution);
  if (!halves && (graph[a.buffer].dtype != DType::f32 || graph[out.buffer].dtype != DType::f32)) return false;
  if (convolution.windows.size() > rt::kMaxSpatial || !at_least(a.sizes.back(), 1)) return false;
  // oneDNN describes no operand that repeats elements or runs backwards.
  bool forwards = true;
  for_each_operand(op.kernel, [&](const TensorRef& ref, bool) {
    for (std::size_t k = 0; k < ref.sizes.size(); ++k)
      forwards = forwards && (ref.sizes[k].is_constant(1) || bounds(ref.strides[k]).max >= 1);
  });
  return forwards;
}

}  // namespace

KernelLimits kernel_limits() {
  return {.post_ops = post_ops_taken, .window_kernel = has_window_kernel, .attention = true};
}

Target target() {
  return {
      .name = kTargetName,
      .machine = std::string(analysis::kCpuMachine),
      .engine = passes::CommEngine::shared_memory,
      .abi = ProgramAbi::host,
      .files = {".cc", ".h", ".so"},
      .library = ".so",
      .has_checked = true,
      .limits = kernel_limits(),
      .emit = [](const Schedule& schedule, const EmitRequest& request, ProgramFolder& folder) -> Emitted {
        const EmittedProgram program = emit_cpp(schedule, {.name = request.name, .checked = request.checked});
        write_program(program, schedule.graph, folder);
        return {program.name, program.id};
      },
      .build = [](const std::string& dir, const std::string& name,
                  const BuildRequest& request) { return build_library(dir, name, {.cpu = request.cpu}); },
  };
}

}  // namespace braid::codegen::cpp
