// Prints time per kernel, and what it reached of the machine's roof.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "cli/report.h"
#include "harness/profile.h"

namespace braid::cli {

// Prints the nodes of a CPU program, the slowest first. Operations and bytes are not known of a compiled
// program, which is not modelled: then there are only times. The roof is measured with so many threads.
void tell_profile(const harness::Profile& profile, bool modelled, int threads, Report& report);
// The same for a CUDA program (cuda_profile.cc). The roof is that of the machine `machine`
// (analysis/costs/machine.h). On the emulated device there are no times: launches, operations and bytes are
// printed.
void tell_cuda_profile(const harness::Profile& profile, bool emulated, bool modelled,
                       const std::string& machine, Report& report);

struct Prediction {
  std::string machine;  // of the GPU
  std::string cards;    // a file of kernel cards, or empty: then no kernel has a time
  std::string costs;  // where the times are written to as a cost file (analysis/costs/cost_file.h), or empty
};
// Runs a step of a CUDA program on the emulated device and prints the predicted time of each kernel of rank 0
// (harness/kernel_prediction.h; predicted_profile.cc). Products have the time of the roofline, if `schedule`
// is not null. UserErrors: of the machine and the cards, and of a prediction that is to be written and cannot
// be made.
void tell_predicted(const harness::Program& program, const harness::RankTensors& inputs,
                    const harness::ExecuteOptions& options, const ir::Schedule* schedule,
                    const std::map<std::string, std::int64_t>& dims, const Prediction& prediction,
                    Report& report);

}  // namespace braid::cli
