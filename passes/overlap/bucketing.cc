#include "passes/overlap/bucketing.h"

#include <algorithm>
#include <map>

#include "passes/overlap/measure.h"
#include "passes/overlap/reach.h"

namespace braid::passes {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

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
  for (int c = 0; c < static_cast<int>(problem.collectives.size()); ++c) {
    const ir::OpId op = problem.collectives[at(c)].op;
    if (!may_merge(schedule, problem, c) ||
        !wanted(rules, schedule.graph[op].as<ir::CollectiveKernel>()->kind))
      continue;
    const CollectiveShape shape = costs.shape(schedule.graph, op);
    Open& o = open[merge_key(schedule.graph, op, rules.mixed_dtypes)];
    const bool depends = std::ranges::any_of(o.bucket.collectives,
                                             [&](int other) { return reach.completes_before(other, c); });
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
            const std::function<bool(const ir::Schedule& before, const ir::Schedule& merged)>& accept,
            int tries) {
  // Collectives of one bucket change places with others: their order is not a dependency here.
  const Problem problem = make_problem(schedule, *context.costs, {.channel_order = false});
  if (problem.collectives.empty()) return false;
  const std::vector<Bucket> buckets = greedy_buckets(schedule, problem, *context.costs, rules);
  if (buckets.empty()) return false;

  ir::Schedule best = schedule;
  std::vector<Bucket> kept;
  const std::function<void(std::span<const Bucket>)> add = [&](std::span<const Bucket> part) {
    if (tries-- <= 0) return;
    std::vector<Bucket> tried = kept;
    tried.insert(tried.end(), part.begin(), part.end());
    ir::Schedule merged = schedule;
    bool good = merge_collectives(merged, problem, tried);
    if (good && context.memory_cap) {
      good = MemoryModel(merged).planned_bytes(identity_order(static_cast<int>(merged.nodes.size()))) <=
             *context.memory_cap;
    }
    if (good && (!accept || accept(best, merged))) {
      kept = std::move(tried);
      best = std::move(merged);
    } else if (part.size() > 1) {
      add(part.first(part.size() / 2));
      add(part.subspan(part.size() / 2));
    }
  };
  add(buckets);
  if (kept.empty()) return false;
  const MeasureOptions cheap{.bounds = false, .planned = false};
  context.reports.push_back(
      make_report(std::string(pass),
                  measure(schedule, problem, MemoryModel(schedule), identity_order(problem.size()), cheap),
                  measure(best, *context.costs, cheap)));
  schedule = std::move(best);
  return true;
}

}  // namespace braid::passes
