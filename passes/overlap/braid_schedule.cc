#include "passes/overlap/braid_schedule.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "analysis/bounds.h"
#include "analysis/measure.h"
#include "analysis/memory_model.h"
#include "analysis/order_analysis.h"
#include "analysis/problem.h"
#include "ir/dependencies.h"
#include "ir/effects.h"
#include "passes/overlap/bucket_search.h"
#include "passes/overlap/split_search.h"

namespace braid::passes {
namespace {

using namespace ir;
using namespace analysis;

// Requires that the schedule is already in the order of the pass.
OverlapReport report_of(const Measurement& before, const Schedule& schedule, const Problem& p,
                        const MemoryModel& model, const std::map<OpId, std::pair<NodeId, NodeId>>& was) {
  const Order order = identity_order(p.nodes());
  OverlapReport report =
      make_report(std::string(BraidSchedule::kName), before, measure(schedule, p, model, order));
  std::size_t next = 0;  // reports are in the order of the starts
  for (const NodeId n : order) {
    for (const Step& step : p.steps_of(n)) {
      if (step.kind != Step::Kind::start) continue;
      const Collective& c = p.collectives[step.collective];
      CollectiveReport& r = report.collectives[next++];
      if (const auto it = was.find(c.op); it != was.end()) {
        r.moves = it->second.first - c.start;
        if (c.wait.valid()) r.moves += c.wait - it->second.second;
        r.moves = std::max(r.moves, 0);
      }
    }
  }
  return report;
}

}  // namespace

bool BraidSchedule::run(Schedule& schedule, PassContext& context) {
  const CostModel& costs = *context.costs;
  const bool channel_order = has_point_to_point(schedule);
  const Problem problem = make_problem(schedule, costs, {.channel_order = channel_order});
  if (problem.collectives.empty()) return false;
  if (context.useful) {
    const Time bound = input_bound(problem);
    if (bound > *context.useful) {
      context.at_least = bound;
      return false;
    }
  }
  const MemoryModel model(schedule);
  const Order input = identity_order(problem.nodes());
  const Measurement before = measure(schedule, problem, model, input, {.bounds = false});

  OrderSearchOptions options;
  options.appends_per_node = std::max<std::int64_t>(budget, 0);
  if (options.appends_per_node == 0) options.least_appends = 0;
  options.cap = context.memory_cap;
  if (memory_growth >= 0) {
    const auto most = static_cast<std::int64_t>(
        std::floor(static_cast<double>(before.planned_bytes) * (1 + memory_growth / 100)));
    options.cap = std::min(options.cap.value_or(most), most);
  }
  Scheduled best{schedule, order_of(schedule, costs, options, channel_order)};
  if (!best.found.keeps_cap) check_cap(schedule, model, best.found.order, *context.memory_cap);
  const bool merged = merge && search_buckets(best, costs, options,
                                              {.channel_order = channel_order,
                                               .tries = std::clamp(60'000 / problem.size(), 2, 16)});
  const bool split_up = split && search_splits(best, costs, options,
                                               {.channel_order = channel_order,
                                                .tries = std::clamp(30'000 / problem.size(), 1, 8)});
  const bool moved = apply_order(best.schedule, best.found.order);

  std::map<OpId, std::pair<NodeId, NodeId>> was;
  for (const Collective& c : problem.collectives) was[c.op] = {c.start, c.wait};
  if (merged || split_up || moved) {
    schedule = std::move(best.schedule);
    const Problem after = make_problem(schedule, costs, {.channel_order = channel_order});
    context.reports.push_back(report_of(before, schedule, after, MemoryModel(schedule), was));
  } else {
    context.reports.push_back(report_of(before, schedule, problem, model, was));
  }
  context.reports.back().freedom = {
      .starts = true, .waits = true, .collectives = true, .planned_cap = options.cap};
  return merged || split_up || moved;
}

}  // namespace braid::passes
