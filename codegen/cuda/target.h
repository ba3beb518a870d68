// CUDA source for GPUs and NCCL, or for the emulated device.
#pragma once

#include <string_view>

#include "codegen/cuda/emit.h"
#include "codegen/target.h"

namespace braid::codegen::cuda {

KernelLimits kernel_limits(const CudaOptions& options = {});

// One stream runs all collectives of a CUDA program. If the program declares an order per communicator, and
// nothing is between a send and its receive, this pass declares one order for all, so that later passes put
// nothing between them.
struct OneIssueOrder {
  static constexpr std::string_view kName = "one_issue_order";
  static constexpr std::string_view kDescription =
      "declares one order for all collectives of a program that sends";
  bool run(ir::Schedule& schedule) const;
};

Target target();

}  // namespace braid::codegen::cuda
