#include "passes/rivals/simple_fsdp.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>

#include "analysis/measure.h"
#include "analysis/order_analysis.h"
#include "analysis/reach.h"
#include "passes/overlap/early_releases.h"
#include "passes/overlap/merge_collectives.h"
#include "passes/pass_context.h"

namespace braid::passes {
namespace {

using namespace analysis;

using ir::CollectiveKind;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

CollectiveKind kind_of(const ir::Schedule& s, const Problem& p, int collective) {
  return s.graph[p.collectives[at(collective)].op].as<ir::CollectiveKernel>()->kind;
}
bool is_fsdp(CollectiveKind kind) {
  return kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter;
}

std::vector<Bucket> buckets_of(const ir::Schedule& schedule, const Problem& p, const CostModel& costs,
                               std::int64_t memory) {
  // Compute in front of each node.
  std::vector<Time> before = {Time{}};
  for (int n = 0; n < p.size(); ++n) before.push_back(before.back() + p.compute_time(n));
  const Reach reach(p);
  struct Open {
    Bucket bucket;
    CollectiveShape shape;
    Time hides;          // compute between the bucket before this one and this one
    int last_wait = -1;  // node: of the bucket before
  };
  std::map<MergeKey, Open> open;
  std::vector<Bucket> out;
  const auto close = [&](Open& o) {
    if (o.bucket.collectives.empty()) return;
    o.last_wait = p.collectives[at(o.bucket.collectives.front())].wait;
    if (o.bucket.collectives.size() > 1) out.push_back(std::move(o.bucket));
    o.bucket = {};
  };
  for (int c = 0; c < static_cast<int>(p.collectives.size()); ++c) {
    const Collective& collective = p.collectives[at(c)];
    if (!is_fsdp(kind_of(schedule, p, c)) || !may_merge(schedule, p, c)) continue;
    const CollectiveShape shape = costs.shape(schedule.graph, collective.op);
    Open& o = open[merge_key(schedule.graph, collective.op, true)];
    CollectiveShape grown = shape;
    if (!o.bucket.collectives.empty()) grown.bytes += o.shape.bytes;
    const bool depends = std::ranges::any_of(o.bucket.collectives,
                                             [&](int other) { return reach.completes_before(other, c); });
    if (!o.bucket.collectives.empty() &&
        (depends || grown.bytes > memory || costs.collective(grown).time > o.hides)) {
      close(o);
      grown = shape;
    }
    if (o.bucket.collectives.empty()) {
      o.hides = o.last_wait < 0 ? Time{} : before[at(collective.start)] - before[at(o.last_wait)];
    }
    o.bucket.collectives.push_back(c);
    o.shape = grown;
  }
  for (auto& [key, o] : open) close(o);
  std::sort(out.begin(), out.end(),
            [](const Bucket& a, const Bucket& b) { return a.collectives < b.collectives; });
  return out;
}

// Nodes by wish, as far as dependencies allow.
std::vector<int> by_wish(const Problem& p, const std::vector<std::pair<int, int>>& wish) {
  using Key = std::pair<std::pair<int, int>, int>;
  std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
  std::vector<int> missing, order;
  for (int n = 0; n < p.size(); ++n) {
    missing.push_back(static_cast<int>(p.predecessors(n).size()));
    if (missing.back() == 0) ready.push({wish[at(n)], n});
  }
  while (!ready.empty()) {
    const int n = ready.top().second;
    ready.pop();
    order.push_back(n);
    for (int after : p.successors(n)) {
      if (--missing[at(after)] == 0) ready.push({wish[at(after)], after});
    }
  }
  return order;
}

bool prefetch(ir::Schedule& schedule, const CostModel& costs) {
  const Problem p = make_problem(schedule, costs, {.channel_order = false});
  // (position, 0 in front of what stands there, 1 itself, 2 behind it)
  std::vector<std::pair<int, int>> wish;
  for (int n = 0; n < p.size(); ++n) wish.emplace_back(n, 1);
  std::map<int, int> last_gather, last_scatter;  // by group
  for (int c = 0; c < static_cast<int>(p.collectives.size()); ++c) {
    const Collective& collective = p.collectives[at(c)];
    if (collective.wait < 0) continue;
    const int group = schedule.graph[collective.op].as<ir::CollectiveKernel>()->group.index;
    if (kind_of(schedule, p, c) == CollectiveKind::all_gather) {
      if (const auto last = last_gather.find(group); last != last_gather.end()) {
        wish[at(collective.start)] = {p.collectives[at(last->second)].wait, 2};
      }
      last_gather[group] = c;
    } else if (kind_of(schedule, p, c) == CollectiveKind::reduce_scatter) {
      const auto late = [&](int scatter, std::pair<int, int> where) {
        wish[at(p.collectives[at(scatter)].wait)] = where;
      };
      if (const auto last = last_scatter.find(group); last != last_scatter.end())
        late(last->second, {collective.start, 0});
      late(c, {p.size(), 0});
      last_scatter[group] = c;
    }
  }
  return apply_order(schedule, with_early_releases(p, by_wish(p, wish)));
}

}  // namespace

bool SimpleFsdp::run(ir::Schedule& schedule, PassContext& context) {
  const CostModel& costs = *context.costs;
  const auto analysis = analyse(schedule, context, {.channel_order = false});
  const Problem& problem = analysis->problem;
  bool any = false;
  for (int c = 0; c < static_cast<int>(problem.collectives.size()); ++c)
    any |= is_fsdp(kind_of(schedule, problem, c));
  if (!any) return false;
  const MeasureOptions cheap{.bounds = false, .planned = false};
  auto memory = static_cast<std::int64_t>(memory_mb * 1e6);
  // Smaller buckets until the plan keeps the cap; at last none, and no prefetch either.
  for (int tries = 0; tries < 8; ++tries, memory /= 2) {
    ir::Schedule made = schedule;
    merge_collectives(made, problem, buckets_of(schedule, problem, costs, memory));
    prefetch(made, costs);
    const MemoryModel model(made);
    const std::vector<int> in_order = identity_order(static_cast<int>(made.nodes.size()));
    if (context.memory_cap && model.planned_bytes(in_order) > *context.memory_cap) continue;
    context.reports.push_back(
        make_report(std::string(kName),
                    measure(schedule, problem, analysis->memory, identity_order(problem.size()), cheap),
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

}  // namespace braid::passes
