#include "analysis/check/event_graph.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace braid::check {
namespace {

std::size_t at(int event) { return static_cast<std::size_t>(event); }

}  // namespace

std::optional<std::vector<int>> EventGraph::order() const {
  std::vector<int> missing(next_.size(), 0);
  for (const auto& row : next_) {
    for (const int then : row) ++missing[at(then)];
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int e = 0; e < size(); ++e) {
    if (missing[at(e)] == 0) ready.push(e);
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int event = ready.top();
    ready.pop();
    order.push_back(event);
    for (const int then : next_[at(event)]) {
      if (--missing[at(then)] == 0) ready.push(then);
    }
  }
  if (order.size() != next_.size()) return std::nullopt;
  return order;
}

std::vector<int> EventGraph::shortest_cycle(int sources) const {
  // What a topological sort from both sides cannot remove holds all cycles.
  std::vector<bool> alive(next_.size(), true);
  std::vector<std::vector<int>> previous(next_.size());
  for (int e = 0; e < size(); ++e) {
    for (const int then : next_[at(e)]) previous[at(then)].push_back(e);
  }
  const auto peel = [&](const std::vector<std::vector<int>>& forward,
                        const std::vector<std::vector<int>>& back) {
    std::vector<int> missing(next_.size(), 0), ready;
    for (int e = 0; e < size(); ++e) {
      if (!alive[at(e)]) continue;
      for (const int p : back[at(e)]) missing[at(e)] += alive[at(p)];
      if (missing[at(e)] == 0) ready.push_back(e);
    }
    while (!ready.empty()) {
      const int e = ready.back();
      ready.pop_back();
      alive[at(e)] = false;
      for (const int n : forward[at(e)]) {
        if (alive[at(n)] && --missing[at(n)] == 0) ready.push_back(n);
      }
    }
  };
  peel(next_, previous);
  peel(previous, next_);

  std::vector<int> best;
  std::vector<int> from(next_.size(), -1), stamp(next_.size(), -1), depth(next_.size(), 0);
  for (int source = 0; source < size() && sources > 0; ++source) {
    if (!alive[at(source)]) continue;
    --sources;
    std::queue<int> queue;
    queue.push(source);
    stamp[at(source)] = source;
    depth[at(source)] = 1;
    bool found = false;
    while (!queue.empty() && !found) {
      const int e = queue.front();
      queue.pop();
      if (!best.empty() && at(depth[at(e)]) >= best.size()) break;
      for (const int n : next_[at(e)]) {
        if (n == source) {
          best.clear();
          for (int walk = e; walk != source; walk = from[at(walk)]) best.push_back(walk);
          best.push_back(source);
          std::reverse(best.begin(), best.end());
          found = true;
          break;
        }
        if (!alive[at(n)] || stamp[at(n)] == source) continue;
        stamp[at(n)] = source;
        depth[at(n)] = depth[at(e)] + 1;
        from[at(n)] = e;
        queue.push(n);
      }
    }
  }
  return best;
}

}  // namespace braid::check
