#include "passes/overlap/split_search.h"

#include <algorithm>

#include "analysis/bounds.h"
#include "analysis/memory_model.h"
#include "analysis/simulator.h"
#include "passes/overlap/splitting.h"

namespace braid::passes {
namespace {

using namespace ir;
using namespace analysis;

constexpr int kLarge = 20'000;  // nodes, from which on the order of a trial is good enough
constexpr std::int64_t kLeastGain =
    2000;  // more starts must gain more than one part in so many of the makespan

std::size_t at(int index) { return static_cast<std::size_t>(index); }

class SplitSearch {
 public:
  SplitSearch(Scheduled& best, const CostModel& costs, const OrderSearchOptions& full,
              const SplitSearchOptions& options)
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
    // Nothing that is not exposed can be gained.
    const Time above = best_.found.makespan - input_bound(problem_);
    if (above.ps <= best_.found.makespan.ps / 1000) return false;
    find_candidates();
    std::vector<Split> chosen;
    std::vector<std::vector<int>> tried;
    for (const auto& [set, chunks] :
         {std::pair(&in_the_way_, 4), {&both_, 4}, {&in_the_way_, 2}, {&exposed_, 2}, {&in_the_way_, 8}}) {
      if (tries_ <= 0) break;
      std::vector<Split> splits = splits_of(*set, chunks);
      std::vector<int> key;
      for (const Split& s : splits) key.insert(key.end(), {s.collective, static_cast<int>(s.parts.size())});
      if (splits.empty() || std::ranges::find(tried, key) != tried.end()) continue;
      tried.push_back(std::move(key));
      if (attempt(splits, best_.found.makespan.ps / kLeastGain)) chosen = std::move(splits);
    }
    if (chosen.empty()) return false;
    without_parts(chosen);
    if (problem_.size() > kLarge) return true;
    FoundOrder thorough = order_of(best_.schedule, costs_, full_, options_.channel_order);
    if (thorough.keeps_cap && thorough.makespan <= best_.found.makespan) best_.found = std::move(thorough);
    return true;
  }

 private:
  Scheduled& best_;
  const CostModel& costs_;
  const OrderSearchOptions& full_;
  const SplitSearchOptions& options_;
  Schedule base_;  // whole, in its best order
  Problem problem_;
  int tries_;
  std::vector<int> in_the_way_, exposed_, both_;  // collectives

  void find_candidates() {
    const Timeline t = simulate(problem_, identity_order(problem_.size()));
    const int count = static_cast<int>(problem_.collectives.size());
    // What runs on a channel runs in the order of issue.
    std::vector<std::vector<int>> on_channel(at(problem_.channels));
    for (int c = 0; c < count; ++c) on_channel[at(problem_.collectives[at(c)].channel)].push_back(c);
    std::vector<bool> blocks(at(count), false), waits(at(count), false);
    for (std::vector<int>& line : on_channel) {
      std::ranges::sort(line, {}, [&](int c) { return std::pair(t.collectives[at(c)].begin.ps, c); });
      for (std::size_t k = 0; k < line.size(); ++k) {
        const int c = line[k];
        if (t.collectives[at(c)].blocked.ps == 0) continue;
        waits[at(c)] = true;
        const Time ready = ready_at(c, t);
        for (std::size_t before = k; before-- > 0 && t.collectives[at(line[before])].end > ready;)
          blocks[at(line[before])] = true;
      }
    }
    for (int c = 0; c < count; ++c) {
      if (blocks[at(c)]) in_the_way_.push_back(c);
      if (waits[at(c)]) exposed_.push_back(c);
      if (blocks[at(c)] || waits[at(c)]) both_.push_back(c);
    }
  }

  // When the last of what it needs is complete.
  Time ready_at(int collective, const Timeline& t) const {
    Time ready;
    for (const int before : problem_.predecessors(problem_.collectives[at(collective)].start)) {
      if (const int last = problem_.first_step[at(before) + 1]; last > problem_.first_step[at(before)])
        ready = std::max(ready, t.steps[at(last - 1)].end);
    }
    return ready;
  }

  std::vector<Split> splits_of(const std::vector<int>& set, int chunks) const {
    const Splitter splitter(base_, problem_, costs_);
    std::vector<Split> out;
    for (const int c : set) {
      const CollectiveCost& cost = problem_.collectives[at(c)].cost;
      const std::int64_t most = (cost.time - cost.latency).ps / std::max<std::int64_t>(1, cost.latency.ps);
      const int parts = static_cast<int>(std::min<std::int64_t>(chunks, most));
      if (parts < 2) continue;
      Split s = splitter.split(c, {.chunks = parts});
      if (!s.parts.empty()) out.push_back(std::move(s));
    }
    return out;
  }

  // Keeps what comes out if it is more than `gain` shorter, or with `gain` of -1: not longer.
  bool attempt(const std::vector<Split>& splits, std::int64_t gain) {
    --tries_;
    Schedule made = base_;
    split_collectives(made, problem_, splits);
    OrderSearchOptions quick = full_;  // trials are many
    quick.quick = true;
    FoundOrder found = order_of(made, costs_, quick, options_.channel_order);
    if (!found.keeps_cap || (best_.found.makespan - found.makespan).ps <= gain) return false;
    best_ = {std::move(made), std::move(found)};
    return true;
  }

  // Fewer do as well: halves, then quarters, that gain nothing are left whole.
  void without_parts(std::vector<Split>& chosen) {
    for (std::size_t parts = 2; parts <= 4 && parts <= chosen.size(); parts *= 2) {
      for (std::size_t k = parts; k-- > 0 && tries_ > 0;) {
        const std::size_t n = chosen.size(), from = n * k / parts, to = n * (k + 1) / parts;
        std::vector<Split> fewer(chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(from));
        fewer.insert(fewer.end(), chosen.begin() + static_cast<std::ptrdiff_t>(to), chosen.end());
        if (from == to || fewer.empty()) continue;
        if (attempt(fewer, -1)) chosen = std::move(fewer);
      }
    }
  }
};

}  // namespace

bool search_splits(Scheduled& best, const CostModel& costs, const OrderSearchOptions& full,
                   const SplitSearchOptions& options) {
  return SplitSearch(best, costs, full, options).run();
}

}  // namespace braid::passes
