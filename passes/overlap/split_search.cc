#include "passes/overlap/split_search.h"

#include <algorithm>

#include "analysis/simulator.h"
#include "passes/overlap/splitting.h"

namespace braid::passes {
namespace {

using namespace ir;
using namespace analysis;

constexpr std::int64_t kLeastGain =
    2000;  // more starts must gain more than this fraction (1/2000) of the makespan

class SplitSearch {
 public:
  SplitSearch(Scheduled& best, const CostModel& costs, const OrderSearchOptions& full,
              const SplitSearchOptions& options)
      : trials_(best, costs, full, options.channel_order, options.tries), problem_(trials_.problem()) {}

  bool run() {
    // Only exposed time can be gained.
    const auto share_of_best = [&](std::int64_t part) { return trials_.best().found.makespan.ps / part; };
    if (trials_.above_bound().ps <= share_of_best(1000)) return false;
    find_candidates();
    std::vector<Split> chosen;
    std::vector<std::vector<std::pair<CollectiveId, std::size_t>>> tried;
    for (const auto& [set, chunks] :
         {std::pair(&in_the_way_, 4), {&both_, 4}, {&in_the_way_, 2}, {&exposed_, 2}, {&in_the_way_, 8}}) {
      if (trials_.spent()) break;
      std::vector<Split> splits = splits_of(*set, chunks);
      std::vector<std::pair<CollectiveId, std::size_t>> key;
      for (const Split& s : splits) key.emplace_back(s.collective, s.parts.size());
      if (splits.empty() || std::ranges::find(tried, key) != tried.end()) continue;
      tried.push_back(std::move(key));
      if (attempt(splits, share_of_best(kLeastGain))) chosen = std::move(splits);
    }
    if (chosen.empty()) return false;
    trials_.leave_out_parts(chosen, 4, 1,
                            [&](const std::vector<Split>& fewer) { return attempt(fewer, -1); });
    trials_.order_best();
    return true;
  }

 private:
  TrialSearch trials_;
  const Problem& problem_;
  std::vector<CollectiveId> in_the_way_, exposed_, both_;

  void find_candidates() {
    const Timeline t = simulate(problem_, identity_order(problem_.nodes()));
    // A channel runs its collectives in the order of issue.
    IdVector<ChannelId, std::vector<CollectiveId>> on_channel(problem_.channel_ids());
    for (const CollectiveId c : problem_.collectives.ids())
      on_channel[problem_.collectives[c].channel].push_back(c);
    IdVector<CollectiveId, char> blocks(t.collectives.ids(), 0), waits(t.collectives.ids(), 0);
    for (std::vector<CollectiveId>& line : on_channel) {
      std::ranges::sort(line, {}, [&](CollectiveId c) { return std::pair(t.collectives[c].begin.ps, c); });
      for (std::size_t k = 0; k < line.size(); ++k) {
        if (t.collectives[line[k]].blocked.ps == 0) continue;
        waits[line[k]] = 1;
        const Time ready = ready_at(line[k], t);
        for (std::size_t before = k; before-- > 0 && t.collectives[line[before]].end > ready;)
          blocks[line[before]] = 1;
      }
    }
    for (const CollectiveId c : t.collectives.ids()) {
      if (blocks[c] != 0) in_the_way_.push_back(c);
      if (waits[c] != 0) exposed_.push_back(c);
      if (blocks[c] != 0 || waits[c] != 0) both_.push_back(c);
    }
  }

  // When everything that it needs is complete.
  Time ready_at(CollectiveId collective, const Timeline& t) const {
    Time ready;
    for (const NodeId before : problem_.predecessors(problem_.collectives[collective].start)) {
      if (const IdRange<StepId> steps = problem_.step_ids(before); !steps.empty())
        ready = std::max(ready, t.steps[*std::prev(steps.end())].end);
    }
    return ready;
  }

  std::vector<Split> splits_of(const std::vector<CollectiveId>& set, int chunks) const {
    const Splitter splitter(trials_.base(), problem_, trials_.costs());
    std::vector<Split> out;
    for (const CollectiveId c : set) {
      const CollectiveCost& cost = problem_.collectives[c].cost;
      const std::int64_t most = (cost.time - cost.latency).ps / std::max<std::int64_t>(1, cost.latency.ps);
      const int parts = most < chunks ? static_cast<int>(most) : chunks;
      if (parts < 2) continue;
      Split s = splitter.split(c, {.chunks = parts});
      if (!s.parts.empty()) out.push_back(std::move(s));
    }
    return out;
  }

  // Keeps the result if it is more than `gain` shorter or, with a gain of -1, not longer.
  bool attempt(const std::vector<Split>& splits, std::int64_t gain) {
    return trials_.attempt(
        [&](Schedule& schedule) {
          split_collectives(schedule, problem_, splits);
          return true;
        },
        [&](const Schedule&, const FoundOrder& found) {
          return (trials_.best().found.makespan - found.makespan).ps > gain;
        });
  }
};

}  // namespace

bool search_splits(Scheduled& best, const CostModel& costs, const OrderSearchOptions& full,
                   const SplitSearchOptions& options) {
  return SplitSearch(best, costs, full, options).run();
}

}  // namespace braid::passes
