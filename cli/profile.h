// Time per kernel, and what it reached of the machine's roof.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/execute.h"
#include "cli/report.h"
#include "ir/schedule.h"

namespace braid::cli {

// The work of a node as the cost model counts it.
struct NodeWork {
  double flops = 0, bytes = 0;
  bool f32 = true;       // all of it: the roof of the CPU is of f32
  bool product = false;  // by the matrix library
  double roof_us = -1;   // what `machine` needs at least, without the launch
};
// By the name of the node or operation. Nodes with regions are missing, because the number of their runs is
// not known; so are collectives and waits, which compute nothing.
std::map<std::string, NodeWork> work_of(const ir::Schedule& schedule,
                                        const std::map<std::string, std::int64_t>& dims,
                                        const std::string& machine);

// Prints the nodes of the slowest rank, the slowest first, from what execute() recorded. `schedule` is null
// for a compiled program, whose kernels' operations and bytes are not known: then there are only times.
void tell_profile(const ProgramFiles& program, const std::vector<RankResult>& results,
                  const ir::Schedule* schedule, const std::map<std::string, std::int64_t>& dims, int threads,
                  Report& report);
// The same for a CUDA program, from a run with ExecuteOptions::profile (cuda_profile.cc). The roof is that of
// the machine `machine` (analysis/costs/machine.h). On the emulated device there are no times: launches,
// operations and bytes are printed.
void tell_cuda_profile(const ProgramFiles& program, const std::vector<RankResult>& results,
                       const ir::Schedule* schedule, const std::map<std::string, std::int64_t>& dims,
                       const std::string& machine, Report& report);

struct Prediction {
  std::string machine;  // of the GPU
  std::string cards;    // a file of kernel cards, or empty: then no kernel has a time
  std::string costs;  // where the times are written to as a cost file (analysis/costs/cost_file.h), or empty
};
// Runs a step of a CUDA program on the emulated device and prints the predicted time of each kernel of rank 0
// (analysis/costs/kernel_time.h; predicted_profile.cc). Products have the time of the roofline, if `schedule`
// is not null. UserErrors: of the machine and the cards, and of a prediction that is to be written and cannot
// be made.
void tell_predicted(const ProgramFiles& program, const std::vector<std::vector<ir::Tensor>>& inputs,
                    const ExecuteOptions& options, const ir::Schedule* schedule,
                    const std::map<std::string, std::int64_t>& dims, const Prediction& prediction,
                    Report& report);

}  // namespace braid::cli
