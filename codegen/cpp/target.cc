#include "codegen/cpp/target.h"

#include "analysis/costs/machine.h"
#include "codegen/cpp/build_library.h"
#include "codegen/cpp/emit.h"
#include "ir/post_ops.h"
#include "runtime/gemm.h"

namespace braid::codegen::cpp {

using namespace ir;

namespace {

// The limits of the runtime's kernels (runtime/gemm.h): float32 throughout, one scale.
std::size_t post_ops_taken(const Graph& graph, const Product& product) {
  if (graph[product.out.buffer].dtype != DType::f32 || graph[product.a.buffer].dtype != DType::f32) return 0;
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

}  // namespace

KernelLimits kernel_limits() { return {post_ops_taken, {}}; }

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
                  const BuildRequest&) { return build_library(dir, name); },
  };
}

}  // namespace braid::codegen::cpp
