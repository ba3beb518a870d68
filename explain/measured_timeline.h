// The timeline of a program's ranks as recorded by `braid run --trace`: for viewing, for comparison with a
// simulated timeline, and as a source of kernel costs.
//
// All times are nanoseconds on a clock shared by the ranks, counted from the first begin of a step.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/costs/cost_file.h"
#include "explain/overlap_story.h"
#include "ir/comm_group.h"

namespace braid::explain {

enum class MeasuredKind : std::uint8_t { kernel, start, wait, release, blocking };

struct MeasuredNode {
  std::string name;   // of the operation or fused node
  std::string label;  // ONNX node
  MeasuredKind kind = MeasuredKind::kernel;
  int collective = -1;  // index into MeasuredTimeline::collectives; -1 for kernels
};

struct MeasuredCollective {
  std::string name;     // of its start
  std::string kernel;   // "all_gather @dp 64.0 MiB", as in reports
  int group = 0;        // index into MeasuredTimeline::groups
  bool paired = false;  // send, recv: its partner is another collective
};

// A node lasts until the next one begins.
struct NodeTimes {
  std::int64_t begin = 0;
  std::int64_t due = 0;    // for waits over a paced link: when the link delivered
  std::int64_t slept = 0;  // how long the wait slept until then
};
using RankTimes = std::vector<NodeTimes>;  // one per node, then the end of the step
using StepTimes = std::vector<RankTimes>;  // one per rank

struct MeasuredTimeline {
  std::string program;
  std::string link;  // "100 us, 1 GB/s"; empty: the engine as it is
  std::vector<ir::CommGroup> groups;
  std::vector<MeasuredCollective> collectives;
  std::vector<MeasuredNode> nodes;
  std::vector<StepTimes> steps;  // at least one
};

// How the time of one node of one rank was spent. For kernels, all of it is work.
struct NodeSplit {
  analysis::Time work;  // on this rank's processor: kernels, and the engine's work in start, wait and release
  analysis::Time transfer;  // blocked until the link delivered
  analysis::Time skew;      // blocked until the last member had started the collective
};
NodeSplit split(const MeasuredTimeline& t, const StepTimes& step, int rank, int node);

// Attributes the time that the rank was blocked on the link to collectives, as the simulator does
// (simulator.h): time in which the link of the wait's group was delivering a collective belongs to that
// collective, and the rest to the one awaited. The sum over the collectives is that of the transfers of all
// nodes.
std::vector<analysis::Time> exposed_on_link(const MeasuredTimeline& t, const StepTimes& step, int rank);

// The time from when all ranks have begun until all have ended.
analysis::Time makespan(const StepTimes& step);
// The index of the step with the median makespan.
std::size_t median_step(const MeasuredTimeline& t);

// The median step as one view per rank: "rank 0", ...
std::vector<std::pair<std::string, TimelineView>> views(const MeasuredTimeline& t);

// Medians over steps and ranks: the time of each kernel under its name and, over a paced link, the engine's
// own work in waits and releases under their names and in starts as "NAME.issue" (cost_file.h). The link's
// time comes from the machine model.
analysis::CostEntries measured_costs(const MeasuredTimeline& t);

}  // namespace braid::explain
