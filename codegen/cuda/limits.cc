#include "codegen/cuda/limits.h"

#include "codegen/cuda/gemm.h"
#include "codegen/cuda/loop_kernels.h"

namespace braid::codegen::cuda {

KernelLimits kernel_limits(const CudaOptions& options) {
  return {[](const ir::Graph& graph, const ir::Gemm& gemm) {
            const std::optional<GemmForm> form = gemm_form(graph, gemm);
            return !form || form->in_place ? std::nullopt : std::optional(form->sum);
          },
          [most = options.max_shared_bytes](const ir::Graph& graph, const ir::FusedLoops& fused) {
            return fused_shared_bytes(graph, fused) <= most;
          }};
}

}  // namespace braid::codegen::cuda
