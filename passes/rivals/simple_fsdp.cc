#include "passes/rivals/simple_fsdp.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>

#include "analysis/measure.h"
#include "analysis/order_analysis.h"
#include "analysis/reach.h"
#include "analysis/topological.h"
#include "passes/overlap/early_releases.h"
#include "passes/overlap/merge_collectives.h"
#include "passes/pass_context.h"

namespace braid::passes {
namespace {

using namespace analysis;

using ir::CollectiveKind;

CollectiveKind kind_of(const ir::Schedule& s, const Problem& p, CollectiveId collective) {
  return s.graph[p.collectives[collective].op].as<ir::CollectiveKernel>()->kind;
}
bool is_fsdp(CollectiveKind kind) {
  return kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter;
}

// Sends and receives keep their places among the other collectives: the other side counts on them.
ProblemOptions kept_order(const ir::Schedule& schedule) {
  return {.channel_order = has_point_to_point(schedule)};
}

std::vector<Bucket> buckets_of(const ir::Schedule& schedule, const Problem& p, const CostModel& costs,
                               std::int64_t memory) {
  // Compute time before each node.
  IdVector<NodeId, Time> before = {Time{}};
  for (NodeId n : p.nodes()) before.push_back(before.back() + p.compute_time(n));
  const Reach reach(p);
  struct Open {
    Bucket bucket;
    CollectiveShape shape;
    Time hides;        // compute between the previous bucket and this one
    NodeId last_wait;  // of the previous bucket
  };
  std::map<MergeKey, Open> open;
  std::vector<Bucket> out;
  const auto close = [&](Open& o) {
    if (o.bucket.collectives.empty()) return;
    o.last_wait = p.collectives[o.bucket.collectives.front()].wait;
    if (o.bucket.collectives.size() > 1) out.push_back(std::move(o.bucket));
    o.bucket = {};
  };
  for (const CollectiveId c : p.collectives.ids()) {
    const Collective& collective = p.collectives[c];
    if (!is_fsdp(kind_of(schedule, p, c)) || !may_merge(schedule, p, c)) continue;
    const CollectiveShape shape = costs.shape(schedule.graph, collective.op);
    Open& o = open[merge_key(schedule.graph, collective.op, true)];
    CollectiveShape grown = shape;
    if (!o.bucket.collectives.empty()) grown.bytes += o.shape.bytes;
    const bool depends = std::ranges::any_of(
        o.bucket.collectives, [&](CollectiveId other) { return reach.completes_before(other, c); });
    if (!o.bucket.collectives.empty() &&
        (depends || grown.bytes > memory || costs.collective(grown).time > o.hides)) {
      close(o);
      grown = shape;
    }
    if (o.bucket.collectives.empty()) {
      o.hides = !o.last_wait.valid() ? Time{} : before[collective.start] - before[o.last_wait];
    }
    o.bucket.collectives.push_back(c);
    o.shape = grown;
  }
  for (auto& [key, o] : open) close(o);
  std::sort(out.begin(), out.end(),
            [](const Bucket& a, const Bucket& b) { return a.collectives < b.collectives; });
  return out;
}

// Drops buckets that would close a cycle in a program whose order of collectives is fixed.
std::vector<Bucket> without_cycles(const ir::Schedule& schedule, const Problem& p, const CostModel& costs,
                                   std::vector<Bucket> buckets) {
  std::vector<CollectiveCost> prices;
  for (const Bucket& b : buckets) prices.push_back(merged_cost(schedule, p, costs, b));
  if (merged_makespan(p, buckets, prices)) return buckets;
  std::vector<Bucket> kept;
  std::vector<CollectiveCost> kept_prices;
  for (std::size_t k = 0; k < buckets.size(); ++k) {
    kept.push_back(std::move(buckets[k]));
    kept_prices.push_back(prices[k]);
    if (merged_makespan(p, kept, kept_prices)) continue;
    kept.pop_back();
    kept_prices.pop_back();
  }
  return kept;
}

bool prefetch(ir::Schedule& schedule, const CostModel& costs) {
  const Problem p = make_problem(schedule, costs, kept_order(schedule));
  // (position, 0 before the node there, 1 at it, 2 after it)
  IdVector<NodeId, std::pair<NodeId, int>> wish;
  for (NodeId n : p.nodes()) wish.emplace_back(n, 1);
  std::map<ir::GroupId, CollectiveId> last_gather, last_scatter;
  for (const CollectiveId c : p.collectives.ids()) {
    const Collective& collective = p.collectives[c];
    if (!collective.wait.valid()) continue;
    const ir::GroupId group = schedule.graph[collective.op].as<ir::CollectiveKernel>()->group;
    if (kind_of(schedule, p, c) == CollectiveKind::all_gather) {
      if (const auto last = last_gather.find(group); last != last_gather.end()) {
        wish[collective.start] = {p.collectives[last->second].wait, 2};
      }
      last_gather[group] = c;
    } else if (kind_of(schedule, p, c) == CollectiveKind::reduce_scatter) {
      const auto late = [&](CollectiveId scatter, std::pair<NodeId, int> where) {
        wish[p.collectives[scatter].wait] = where;
      };
      if (const auto last = last_scatter.find(group); last != last_scatter.end())
        late(last->second, {collective.start, 0});
      late(c, {p.preds.end_id(), 0});
      last_scatter[group] = c;
    }
  }
  return apply_order(schedule,
                     with_early_releases(p, topological_order(p, [&](NodeId n) { return wish[n]; })));
}

}  // namespace

bool SimpleFsdp::run(ir::Schedule& schedule, PassContext& context) {
  const CostModel& costs = *context.costs;
  const auto analysis = analyse(schedule, context, kept_order(schedule));
  const Problem& problem = analysis->problem;
  bool any = false;
  for (const CollectiveId c : problem.collectives.ids()) any |= is_fsdp(kind_of(schedule, problem, c));
  if (!any) return false;
  const MeasureOptions cheap{.bounds = false, .planned = false};
  auto memory = static_cast<std::int64_t>(memory_mb * 1e6);
  // Smaller buckets until the plan keeps the cap; if none does, nothing changes.
  for (int tries = 0; tries < 8; ++tries, memory /= 2) {
    ir::Schedule made = schedule;
    merge_collectives(made, problem,
                      without_cycles(schedule, problem, costs, buckets_of(schedule, problem, costs, memory)));
    prefetch(made, costs);
    const MemoryModel model(made);
    const Order in_order = identity_order(nodes_of(made));
    if (context.memory_cap && model.planned_bytes(in_order) > *context.memory_cap) continue;
    context.reports.push_back(
        make_report(std::string(kName),
                    measure(schedule, problem, analysis->memory, identity_order(problem.nodes()), cheap),
                    measure(made, make_fixed_problem(made, costs), model, in_order, cheap)));
    context.reports.back().freedom = {
        .starts = true, .waits = true, .collectives = true, .planned_cap = context.memory_cap};
    const bool changed = ir::execution_order(made) != ir::execution_order(schedule) ||
                         made.nodes.size() != schedule.nodes.size();
    schedule = std::move(made);
    return changed;
  }
  return false;
}

static const RegisterPass<SimpleFsdp> registered;

}  // namespace braid::passes
