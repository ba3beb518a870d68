#include "passes/overlap/bucket_search.h"

#include <algorithm>

#include "passes/overlap/bucketing.h"

namespace braid::passes {
namespace {

using namespace ir;
using namespace analysis;

// The size at which latency has fallen to `share` of the time, if the rest of the time is proportional to the
// size.
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
      : trials_(best, costs, full, options.channel_order, options.tries) {}

  bool run() {
    if (!worthwhile()) return false;
    std::vector<Bucket> chosen, last;
    for (const double share : {0.1, 0.02, 0.3, 0.05, 0.5, 0.005}) {
      if (trials_.spent()) break;
      const std::vector<Bucket> buckets = buckets_of(share);
      if (buckets.empty() || same(buckets, last)) continue;
      last = buckets;
      if (attempt(buckets)) chosen = buckets;
    }
    if (chosen.empty()) return false;
    trials_.leave_out_parts(chosen, 8, 2, [&](const std::vector<Bucket>& fewer) { return attempt(fewer); });
    trials_.order_best();
    return true;
  }

 private:
  TrialSearch trials_;

  // Merging saves only latency. Whether there is enough of it where it matters.
  bool worthwhile() const {
    const Problem& problem = trials_.problem();
    IdVector<ChannelId, std::int64_t> latency(problem.channel_ids(), 0);
    for (const CollectiveId c : problem.collectives.ids()) {
      if (!may_merge(trials_.base(), problem, c)) continue;
      latency[problem.collectives[c].channel] += problem.collectives[c].cost.latency.ps;
    }
    const std::int64_t most = latency.empty() ? 0 : *std::max_element(latency.begin(), latency.end());
    return std::min(most, trials_.above_bound().ps) > trials_.best().found.makespan.ps / 1000;
  }

  std::vector<Bucket> buckets_of(double share) const {
    BucketRules rules;
    rules.cap = [&](const CollectiveShape& shape) { return bytes_of_share(shape, trials_.costs(), share); };
    return greedy_buckets(trials_.base(), trials_.problem(), trials_.costs(), rules);
  }

  static bool same(const std::vector<Bucket>& a, const std::vector<Bucket>& b) {
    return std::ranges::equal(a, b, {}, &Bucket::collectives, &Bucket::collectives);
  }

  // Keeps the result if it is shorter, or as short with fewer collectives.
  bool attempt(const std::vector<Bucket>& buckets) {
    return trials_.attempt(
        [&](Schedule& schedule) { return merge_collectives(schedule, trials_.problem(), buckets); },
        [&](const Schedule& merged, const FoundOrder& found) {
          const Scheduled& best = trials_.best();
          return found.makespan < best.found.makespan ||
                 (found.makespan == best.found.makespan && merged.nodes.size() < best.schedule.nodes.size());
        });
  }
};

}  // namespace

bool search_buckets(Scheduled& best, const CostModel& costs, const OrderSearchOptions& full,
                    const BucketSearchOptions& options) {
  return BucketSearch(best, costs, full, options).run();
}

}  // namespace braid::passes
