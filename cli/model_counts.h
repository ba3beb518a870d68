// Counts of the emulated device as the model of kernels' times takes them.
#pragma once

#include "analysis/costs/kernel_time.h"
#include "runtime/kernel_counts.h"

namespace braid::cli {

analysis::KernelCounts model_counts(const BraidKernelCounts& kernel);

}  // namespace braid::cli
