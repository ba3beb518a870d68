// Counts of the kernels of a CUDA program on the emulated device, from which kernel cards predict times
// (analysis/costs/kernel_time.h).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/costs/cost_file.h"
#include "analysis/costs/kernel_time.h"
#include "analysis/costs/machine.h"
#include "harness/program.h"
#include "runtime/kernel_counts.h"

namespace braid::harness {

// Counts of the emulated device as the model of kernels' times takes them.
analysis::KernelCounts model_counts(const BraidKernelCounts& kernel);

struct CountedKernel {
  std::string node, name, label;
  double launches = 0;
  analysis::KernelCounts counts;                     // the mean of its launches
  std::optional<analysis::PredictedTime> time = {};  // absent without a card
};

// Runs one step and returns rank 0's kernels in it.
std::vector<CountedKernel> count_kernels(const Program& program, const RankTensors& inputs,
                                         ExecuteOptions options);

// Why nothing can be predicted for the machine of this name; empty if it can.
std::string why_not_predicted(const analysis::Machine& machine, const std::string& name,
                              const ExecuteOptions& options);

// The times of nodes, with those of the library's products in us. A node has a time if all of its kernels
// have.
analysis::CostEntries predicted_costs(const std::vector<CountedKernel>& kernels,
                                      const std::map<std::string, double>& products);

}  // namespace braid::harness
