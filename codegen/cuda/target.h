// CUDA source for GPUs and NCCL, or for the emulated device.
#pragma once

#include <string_view>

#include "codegen/cuda/emit.h"
#include "codegen/target.h"

namespace braid::codegen::cuda {

KernelLimits kernel_limits(const CudaOptions& options = {});

// One stream has all collectives of a CUDA program: where the program declares an order per communicator, and
// nothing stands between a send and its receive, this pass declares one order for all, so that later passes put
// nothing there.
struct OneIssueOrder {
  static constexpr std::string_view kName = "one_issue_order";
  static constexpr std::string_view kDescription = "gives the collectives of a program that sends one order";
  bool run(ir::Schedule& schedule) const;
};

Target target();

}  // namespace braid::codegen::cuda
