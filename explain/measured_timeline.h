// What a program's ranks did and when, as `braid run --trace` recorded it: the same form as a simulated
// timeline, for looking at, for comparing with one, and for the costs of kernels.
//
// All times are nanoseconds on one clock that the ranks share, from the first begin of a step on.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/costs/cost_file.h"
#include "explain/overlap_story.h"

namespace braid::explain {

enum class MeasuredKind : std::uint8_t { kernel, start, wait, release, blocking };

struct MeasuredNode {
  std::string name;   // of the operation or fused node
  std::string label;  // ONNX node
  MeasuredKind kind = MeasuredKind::kernel;
  int collective = -1;  // into MeasuredTimeline::collectives; kernels: -1
};

struct MeasuredCollective {
  std::string name;     // of its start
  std::string kernel;   // "all_gather @dp 64.0 MiB", as in reports
  int group = 0;        // into MeasuredTimeline::groups
  bool paired = false;  // send, recv: its partner is another collective
};

struct MeasuredGroup {
  std::string name;
  std::vector<int> ranks;
};

// A node lasts until the next one begins.
struct NodeTimes {
  std::int64_t begin = 0;
  std::int64_t due = 0;    // waits over a paced link: when it delivered
  std::int64_t slept = 0;  // how long the wait slept until then
};
using RankTimes = std::vector<NodeTimes>;  // one per node, then the end of the step
using StepTimes = std::vector<RankTimes>;  // one per rank

struct MeasuredTimeline {
  std::string program;
  std::string link;  // "100 us, 1 GB/s"; empty: the engine as it is
  std::vector<MeasuredGroup> groups;
  std::vector<MeasuredCollective> collectives;
  std::vector<MeasuredNode> nodes;
  std::vector<StepTimes> steps;  // at least one
};

// Where the time of one node of one rank went. Kernels: all of it is work.
struct NodeSplit {
  analysis::Time
      work;  // of this rank's processor: kernels, and what the engine does in start, wait and release
  analysis::Time transfer;  // blocked until the link delivered
  analysis::Time skew;      // blocked until the last member had started the collective
};
NodeSplit split(const MeasuredTimeline& t, const StepTimes& step, int rank, int node);

// What each collective is charged of the time that the rank was blocked until the link delivered, as in the
// simulator (simulator.h): a wait pays for what the link of its group still had to deliver before, and its
// own collective for the rest. The sum over the collectives is that of the transfers of all nodes.
std::vector<analysis::Time> exposed_on_link(const MeasuredTimeline& t, const StepTimes& step, int rank);

// From when all ranks have begun until all have ended.
analysis::Time makespan(const StepTimes& step);
// Index of the step whose makespan is the median.
std::size_t median_step(const MeasuredTimeline& t);

// The median step, one view per rank: "rank 0", ...
std::vector<std::pair<std::string, TimelineView>> views(const MeasuredTimeline& t);

// Medians over steps and ranks: of each kernel under its name and, over a paced link, the engine's own work
// in waits and releases under theirs and in starts as "NAME.issue" (cost_file.h). What the link takes is the
// machine's to say.
analysis::CostEntries measured_costs(const MeasuredTimeline& t);

// Chrome trace of the median step, with what parse_timeline needs beside the events.
std::string to_json(const MeasuredTimeline& t);
// User errors 558 (cannot be read, or not JSON) and 559 (no timeline of `braid run --trace`), with line and
// column.
MeasuredTimeline read_timeline(const std::string& path);
MeasuredTimeline parse_timeline(const std::string& text, const std::string& file);

// A simulated timeline beside what was measured: makespan, time by kind, a row per collective, and where the
// measured order was another one.
std::string compare(const OverlapStory& story, const ir::Schedule& schedule,
                    const MeasuredTimeline& measured);

}  // namespace braid::explain
