#include "passes/overlap/bucket_search.h"

#include <algorithm>

#include "analysis/bounds.h"
#include "analysis/memory_model.h"
#include "analysis/simulator.h"
#include "passes/overlap/bucketing.h"

namespace braid::passes {
namespace {

using namespace ir;
using namespace analysis;

constexpr int kLarge = 20'000;  // nodes, from which on the order of a trial is good enough

// Bytes at which latency has fallen to a share of the time, if time grows in proportion to what comes on top
// of it.
std::int64_t bytes_of_share(const CollectiveShape& shape, const CostModel& costs, double share) {
  const CollectiveCost cost = costs.collective(shape);
  const double latency = static_cast<double>(cost.latency.ps),
               transfer = static_cast<double>((cost.time - cost.latency).ps);
  if (latency <= 0 || transfer <= 0) return 0;
  const double bytes = static_cast<double>(shape.bytes) * latency / transfer * (1 - share) / share;
  return static_cast<std::int64_t>(std::min(bytes, 1e12));
}

class BucketSearch {
 public:
  BucketSearch(Scheduled& best, const CostModel& costs, const OrderSearchOptions& full,
               const BucketSearchOptions& options)
      : best_(best),
        costs_(costs),
        full_(full),
        options_(options),
        base_(best.schedule),
        tries_(options.tries) {
    apply_order(base_, best.found.order);
    problem_ = make_problem(base_, costs, {.channel_order = options.channel_order});
  }

  bool run() {
    if (!worthwhile()) return false;
    std::vector<Bucket> chosen, last;
    for (const double share : {0.1, 0.02, 0.3, 0.05, 0.5, 0.005}) {
      if (tries_ <= 0) break;
      const std::vector<Bucket> buckets = buckets_of(share);
      if (buckets.empty() || same(buckets, last)) continue;
      last = buckets;
      if (attempt(buckets)) chosen = buckets;
    }
    if (chosen.empty()) return false;
    // Without each of its parts: first large ones, then smaller ones.
    for (std::size_t parts = 2; parts <= 8 && parts <= 2 * chosen.size(); parts *= 2) {
      for (std::size_t k = parts; k-- > 0 && tries_ > 0;) {
        const std::size_t n = chosen.size(), from = n * k / parts, to = n * (k + 1) / parts;
        std::vector<Bucket> fewer(chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(from));
        fewer.insert(fewer.end(), chosen.begin() + static_cast<std::ptrdiff_t>(to), chosen.end());
        if (from == to || fewer.empty()) continue;
        if (attempt(fewer)) chosen = std::move(fewer);
      }
    }
    if (problem_.size() > kLarge) return true;
    FoundOrder thorough = order_of(best_.schedule, costs_, full_, options_.channel_order);
    if (thorough.keeps_cap && thorough.makespan <= best_.found.makespan) best_.found = std::move(thorough);
    return true;
  }

 private:
  Scheduled& best_;
  const CostModel& costs_;
  const OrderSearchOptions& full_;
  const BucketSearchOptions& options_;
  Schedule base_;  // unmerged, in its best order
  Problem problem_;
  int tries_;

  // Merging saves latency and nothing else: is there enough of it where it matters?
  bool worthwhile() const {
    std::vector<std::int64_t> latency(static_cast<std::size_t>(problem_.channels), 0);
    for (std::size_t c = 0; c < problem_.collectives.size(); ++c) {
      if (!may_merge(base_, problem_, static_cast<int>(c))) continue;
      latency[static_cast<std::size_t>(problem_.collectives[c].channel)] +=
          problem_.collectives[c].cost.latency.ps;
    }
    const std::int64_t most = latency.empty() ? 0 : *std::max_element(latency.begin(), latency.end());
    const std::int64_t above = best_.found.makespan.ps - input_bound(problem_).ps;
    return std::min(most, above) > best_.found.makespan.ps / 1000;
  }

  std::vector<Bucket> buckets_of(double share) const {
    BucketRules rules;
    rules.cap = [&](const CollectiveShape& shape) { return bytes_of_share(shape, costs_, share); };
    return greedy_buckets(base_, problem_, costs_, rules);
  }

  static bool same(const std::vector<Bucket>& a, const std::vector<Bucket>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const Bucket& x, const Bucket& y) { return x.collectives == y.collectives; });
  }

  // Keeps what comes out if it is shorter, or as short with fewer collectives.
  bool attempt(const std::vector<Bucket>& buckets) {
    --tries_;
    Schedule merged = base_;
    if (!merge_collectives(merged, problem_, buckets)) return false;
    OrderSearchOptions quick = full_;  // trials are many
    quick.quick = true;
    FoundOrder found = order_of(merged, costs_, quick, options_.channel_order);
    if (!found.keeps_cap || found.makespan > best_.found.makespan) return false;
    if (found.makespan == best_.found.makespan && merged.nodes.size() >= best_.schedule.nodes.size())
      return false;
    best_ = {std::move(merged), std::move(found)};
    return true;
  }
};

}  // namespace

FoundOrder order_of(const Schedule& schedule, const CostModel& costs, const OrderSearchOptions& options,
                    bool channel_order) {
  const Problem problem = make_problem(schedule, costs, {.channel_order = channel_order});
  const MemoryModel model(schedule);
  std::vector<LiveTenant> tenants;
  tenants.reserve(model.tenants().size());
  for (const Tenant& t : model.tenants())
    tenants.push_back({t.bytes, t.comm ? 1 : 0, false, t.to_end, t.nodes});
  const LiveBytes live(problem.size(), std::move(tenants));
  const OrderMemory memory{&live, [&](std::span<const int> order) { return model.planned_bytes(order); }};
  OrderSearchOptions bounded = options;
  bounded.bound = lower_bounds(problem).best();
  return search_order(problem, memory, bounded);
}

bool search_buckets(Scheduled& best, const CostModel& costs, const OrderSearchOptions& full,
                    const BucketSearchOptions& options) {
  return BucketSearch(best, costs, full, options).run();
}

}  // namespace braid::passes
