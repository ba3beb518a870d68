// Time per node of a program, and the work that it is compared with.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "explain/measured_timeline.h"
#include "harness/program.h"
#include "ir/schedule.h"

namespace braid::harness {

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

struct NodeProfile {
  std::string name, label;
  std::int64_t ns = 0;        // the median over the steps; on the emulated device without meaning
  std::int64_t launches = 0;  // CUDA: in one step
  std::optional<NodeWork> work = {};
};

struct Profile {
  int rank = -1;
  std::vector<NodeProfile> nodes;  // in the order of the program

  std::int64_t ns() const;  // of all nodes together
};

// The slowest rank's, from a run with ExecuteOptions::record (CPU) or profile (CUDA), with the work that is
// known. Of the emulated device, whose times mean nothing, the first rank's.
Profile slowest_profile(const Program& program, const std::vector<RankResult>& results,
                        const std::map<std::string, NodeWork>& work);

// The times that the ranks of a CPU program recorded, together with the program's table of nodes.
explain::MeasuredTimeline measured_timeline(const Program& program, const std::vector<RankResult>& results,
                                            const ExecuteOptions& options);

}  // namespace braid::harness
