#include "codegen/cuda/target.h"

#include <algorithm>

#include "analysis/costs/machine.h"
#include "codegen/cuda/build.h"
#include "codegen/cuda/gemm.h"
#include "codegen/cuda/loop_plan.h"
#include "codegen/cuda/supported.h"
#include "codegen/cuda/tile_product.h"
#include "codegen/cuda/write_program.h"
#include "ir/collective_table.h"
#include "passes/align_weights.h"
#include "passes/expand_attention.h"
#include "passes/expand_convolutions.h"
#include "passes/merge_products.h"
#include "passes/narrow_results.h"
#include "passes/pad_results.h"
#include "passes/split_reductions.h"

namespace braid::codegen::cuda {

KernelLimits kernel_limits(const CudaOptions& options) {
  return {.post_ops = post_ops_taken,
          .packed = packed_operands,
          .one_kernel =
              [options](const ir::Graph& graph, const ir::FusedLoops& fused) {
                const LoopPlan plan = plan_loops(graph, fused, {}, options.portable_shared_bytes);
                return ir::bounds(plan.shared_bytes).max <= options.max_shared_bytes;
              },
          .window_kernel =
              [](const ir::Graph& graph, const ir::Operation& op) {
                const auto* convolution = op.as<ir::Convolution>();
                return convolution != nullptr && takes_tile_convolution(graph, *convolution);
              }};
}

bool OneIssueOrder::run(ir::Schedule& schedule) const {
  const ir::Graph& graph = schedule.graph;
  const bool sends = std::any_of(graph.ops.begin(), graph.ops.end(), [](const ir::Operation& op) {
    const auto* k = op.as<ir::CollectiveKernel>();
    return k != nullptr && k->kind == ir::CollectiveKind::send;
  });
  if (schedule.channels != ir::ChannelPolicy::communicator || !sends || parted_transfer(schedule))
    return false;
  schedule.channels = ir::ChannelPolicy::global;
  return true;
}

Target target() {
  return {
      .name = kTargetName,
      .machine = std::string(analysis::kDefaultMachine),
      .engine = passes::CommEngine::nccl,
      // The library multiplies f32 matrices; products of bytes are loops.
      .kernels = {.byte_tables = false, .fast_byte_sums = false},
      .abi = ProgramAbi::cuda,
      .files = {".cu", ".h", ".emulated.so", ".cuda.so"},
      .library = ".emulated.so",
      .device_library = ".cuda.so",
      .has_architectures = true,
      .has_precise = true,
      .has_standalone = true,
      .first = {OneIssueOrder()},
      .after_layouts = {passes::ExpandAttention(),
                        passes::ExpandConvolutions{.has_kernel = prefers_tile_convolution},
                        passes::MergeProducts{.steps_taken = post_ops_taken}, passes::NarrowResults(),
                        passes::PadResults(), passes::AlignWeights(), passes::SplitReductions()},
      .limits = kernel_limits(),
      .why_not_library = why_not_library,
      .emit = [](const ir::Schedule& schedule, const EmitRequest& request, ProgramFolder& folder) -> Emitted {
        const CudaProgram program = emit_cuda(schedule, {.name = request.name, .precise = request.precise});
        write_cuda(program, schedule, folder, request.standalone);
        return {program.name, program.id};
      },
      .build =
          [](const std::string& dir, const std::string& name, const BuildRequest& request) {
            return request.emulated ? build_emulated(dir, name)
                                    : build_nvcc(dir, name, request.architectures);
          },
  };
}

}  // namespace braid::codegen::cuda
