// The figures of one schedule that bench, explain and the passes' reports print.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analysis/bounds.h"
#include "analysis/memory_model.h"
#include "analysis/problem.h"
#include "analysis/report.h"
#include "analysis/simulator.h"
#include "ir/schedule.h"

namespace braid::analysis {

struct Measurement {
  Time makespan;
  Bounds bounds;               // of this graph, whatever the order of its collectives
  Time input_bound;            // of this graph as the input; callers keep that of the first one
  Time exposed;                // sum over the collectives, also over what is in flight at the end
  std::int64_t live_peak = 0;  // bytes
  Position live_peak_step;
  std::int64_t planned_bytes = 0;
  // In the order of their starts; moves and limit are filled in by the pass.
  std::vector<CollectiveReport> collectives;

  // makespan / bound - 1; 0 for an empty schedule.
  double gap() const;
};

struct MeasureOptions {
  bool bounds = true;
  bool planned = true;  // placement is the most expensive part
};

// Measures the schedule in its present order, on the costs' machine.
Measurement measure(const ir::Schedule& schedule, const CostModel& costs, const MeasureOptions& options = {});
// The same with parts that the caller has already.
Measurement measure(const ir::Schedule& schedule, const Problem& problem, const MemoryModel& memory,
                    OrderView order, const MeasureOptions& options = {});

// "all_gather @dp 64.0 MiB": kind, group and payload at upper bounds.
std::string describe_collective(const ir::Graph& graph, ir::OpId start);
std::string format_bytes(std::int64_t bytes);  // "512 B", "64.0 MiB"

// Makes the report of a pass from the measurements before and after it. Collectives are matched by name; one
// that the pass made was not exposed before.
OverlapReport make_report(std::string pass, const Measurement& before, const Measurement& after);

}  // namespace braid::analysis
