// The effect of each pass of a pass list on a schedule's communication: figures before and after each pass,
// and both timelines.
#pragma once

#include <string>
#include <vector>

#include "analysis/measure.h"
#include "ir/schedule.h"
#include "passes/pass.h"
#include "passes/pass_context.h"
#include "passes/runner.h"

namespace braid::explain {

// One span of a simulated (or measured) timeline.
struct Span {
  std::string name;   // of the node or collective
  std::string label;  // kernel: "extern gemm", "all_gather @dp 64.0 MiB"
  int lane = 0;       // 0: compute, 1...: channels
  analysis::Time begin, end;
  bool blocked = false;  // compute lane: waiting for a collective
};
struct TimelineView {
  std::vector<std::string> lanes;  // "compute", "@dp", ...
  std::vector<Span> spans;
  analysis::Time makespan;
  std::vector<std::pair<analysis::Time, std::int64_t>> live;  // bytes live from this time on
};
// The simulated timeline of a schedule in its current order.
TimelineView timeline_view(const ir::Schedule& schedule, const analysis::CostModel& costs);

struct OverlapStep {
  analysis::OverlapReport report;  // with full figures, including bound and planned bytes
  analysis::Measurement before, after;
};
struct OverlapStory {
  std::string machine;
  std::vector<OverlapStep> steps;     // one per pass that made a report, in order
  analysis::Measurement first, last;  // before the first of them and at the end; equal if there are none
  TimelineView first_view, last_view;
  bool any_collective = false;
  std::vector<passes::KernelChoice> kernels;  // for each collective in the final schedule
};

// Observes a run of passes: add `observe` to RunOptions::observers, run, then ask for the story.
class OverlapObserver {
 public:
  explicit OverlapObserver(passes::PassContext& context) : context_(context) {}
  void observe(const passes::Pass& pass, const ir::Schedule& before, const ir::Schedule& after);
  OverlapStory story(const ir::Schedule& last);

 private:
  void explain_last(const ir::Schedule& last);

  passes::PassContext& context_;
  std::size_t seen_ = 0;  // reports
  OverlapStory story_;
  bool begun_ = false;
};

}  // namespace braid::explain
