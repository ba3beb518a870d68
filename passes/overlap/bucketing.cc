#include "passes/overlap/bucketing.h"

#include <algorithm>
#include <map>

#include "analysis/measure.h"
#include "analysis/order_analysis.h"
#include "analysis/reach.h"
#include "ir/error.h"
#include "passes/pass_context.h"

namespace braid::passes {
namespace {

using namespace analysis;

bool wanted(const BucketRules& rules, ir::CollectiveKind kind) {
  switch (kind) {
    case ir::CollectiveKind::all_gather:
      return rules.all_gather;
    case ir::CollectiveKind::reduce_scatter:
      return rules.reduce_scatter;
    case ir::CollectiveKind::all_reduce:
      return rules.all_reduce;
    default:
      return false;
  }
}

}  // namespace

std::vector<Bucket> greedy_buckets(const ir::Schedule& schedule, const Problem& problem,
                                   const CostModel& costs, const BucketRules& rules) {
  struct Open {
    Bucket bucket;
    std::int64_t bytes = 0;
  };
  const Reach reach(problem);
  std::map<MergeKey, Open> open;
  std::vector<Bucket> full;
  const auto close = [&](Open& o) {
    if (o.bucket.collectives.size() > 1) full.push_back(std::move(o.bucket));
    o = {};
  };
  for (const CollectiveId c : problem.collectives.ids()) {
    const ir::OpId op = problem.collectives[c].op;
    if (!may_merge(schedule, problem, c) ||
        !wanted(rules, schedule.graph[op].as<ir::CollectiveKernel>()->kind))
      continue;
    const CollectiveShape shape = costs.shape(schedule.graph, op);
    Open& o = open[merge_key(schedule.graph, op, rules.mixed_dtypes)];
    const bool depends = std::ranges::any_of(
        o.bucket.collectives, [&](CollectiveId other) { return reach.completes_before(other, c); });
    if (depends || o.bytes + shape.bytes > rules.cap(shape)) close(o);
    o.bucket.collectives.push_back(c);
    o.bytes += shape.bytes;
  }
  for (auto& [key, o] : open) close(o);
  std::sort(full.begin(), full.end(),
            [](const Bucket& a, const Bucket& b) { return a.collectives < b.collectives; });
  return full;
}

bool bucket(std::string_view pass, ir::Schedule& schedule, PassContext& context, const BucketRules& rules,
            const BucketTrials& trials) {
  // Collectives of one bucket change places with others, so their order is not a dependency here.
  const auto analysis = analyse(schedule, context, {.channel_order = has_point_to_point(schedule)});
  const Problem& problem = analysis->problem;
  if (problem.collectives.empty()) return false;
  const MeasureOptions cheap{.bounds = false, .planned = false};
  const Measurement before =
      measure(schedule, problem, analysis->memory, identity_order(problem.nodes()), cheap);

  const std::vector<Bucket> buckets = greedy_buckets(schedule, problem, *context.costs, rules);
  std::vector<CollectiveCost> costs;
  for (const Bucket& b : buckets) costs.push_back(merged_cost(schedule, problem, *context.costs, b));
  const auto made = [&](std::span<const Bucket> of) {
    ir::Schedule merged = schedule;
    ir::internal_check(merge_collectives(merged, problem, of), "{}: what was tried cannot be merged", pass);
    return merged;
  };
  std::vector<Bucket> kept;
  std::vector<CollectiveCost> kept_costs;
  Time reached = before.makespan;
  int tries = trials.tries;
  const std::function<void(std::ptrdiff_t, std::ptrdiff_t)> add = [&](std::ptrdiff_t first,
                                                                      std::ptrdiff_t count) {
    if (count == 0 || tries-- <= 0) return;
    std::vector<Bucket> tried = kept;
    tried.insert(tried.end(), buckets.begin() + first, buckets.begin() + first + count);
    std::vector<CollectiveCost> tried_costs = kept_costs;
    tried_costs.insert(tried_costs.end(), costs.begin() + first, costs.begin() + first + count);
    const std::optional<Time> makespan = merged_makespan(problem, tried, tried_costs);
    bool good = makespan && (!trials.keep_makespan || *makespan <= reached);
    if (good && context.memory_cap) {
      const ir::Schedule merged = made(tried);
      good = MemoryModel(merged).planned_bytes(identity_order(nodes_of(merged))) <= *context.memory_cap;
    }
    if (good) {
      kept = std::move(tried);
      kept_costs = std::move(tried_costs);
      reached = *makespan;
    } else if (count > 1) {
      add(first, count / 2);
      add(first + count / 2, count - count / 2);
    }
  };
  add(0, std::ssize(buckets));
  if (kept.empty()) {
    context.reports.push_back(make_report(std::string(pass), before, before));
    return false;
  }
  ir::internal_check(merge_collectives(schedule, problem, kept), "{}: what was tried cannot be merged", pass);
  context.analysis.reset();
  context.reports.push_back(make_report(std::string(pass), before, measure(schedule, *context.costs, cheap)));
  return true;
}

}  // namespace braid::passes
