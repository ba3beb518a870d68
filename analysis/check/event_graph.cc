#include "analysis/check/event_graph.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace braid::check {
std::optional<std::vector<int>> EventGraph::order() const {
  ir::IdVector<int, int> missing(next_.ids(), 0);
  for (const auto& row : next_) {
    for (const int then : row) ++missing[then];
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int e = 0; e < size(); ++e) {
    if (missing[e] == 0) ready.push(e);
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int event = ready.top();
    ready.pop();
    order.push_back(event);
    for (const int then : next_[event]) {
      if (--missing[then] == 0) ready.push(then);
    }
  }
  if (order.size() != next_.size()) return std::nullopt;
  return order;
}

std::vector<int> EventGraph::shortest_cycle(int sources) const {
  // All cycles are among the events that topological sorts from both sides cannot remove.
  ir::IdVector<int, bool> alive(next_.ids(), true);
  Edges previous(next_.ids());
  for (int e = 0; e < size(); ++e) {
    for (const int then : next_[e]) previous[then].push_back(e);
  }
  const auto peel = [&](const Edges& forward, const Edges& back) {
    ir::IdVector<int, int> missing(next_.ids(), 0);
    std::vector<int> ready;
    for (int e = 0; e < size(); ++e) {
      if (!alive[e]) continue;
      for (const int p : back[e]) missing[e] += alive[p];
      if (missing[e] == 0) ready.push_back(e);
    }
    while (!ready.empty()) {
      const int e = ready.back();
      ready.pop_back();
      alive[e] = false;
      for (const int n : forward[e]) {
        if (alive[n] && --missing[n] == 0) ready.push_back(n);
      }
    }
  };
  peel(next_, previous);
  peel(previous, next_);

  std::vector<int> best;
  ir::IdVector<int, int> from(next_.ids(), -1), stamp(next_.ids(), -1), depth(next_.ids(), 0);
  for (int source = 0; source < size() && sources > 0; ++source) {
    if (!alive[source]) continue;
    --sources;
    std::queue<int> queue;
    queue.push(source);
    stamp[source] = source;
    depth[source] = 1;
    bool found = false;
    while (!queue.empty() && !found) {
      const int e = queue.front();
      queue.pop();
      if (!best.empty() && depth[e] >= std::ssize(best)) break;
      for (const int n : next_[e]) {
        if (n == source) {
          best.clear();
          for (int walk = e; walk != source; walk = from[walk]) best.push_back(walk);
          best.push_back(source);
          std::reverse(best.begin(), best.end());
          found = true;
          break;
        }
        if (!alive[n] || stamp[n] == source) continue;
        stamp[n] = source;
        depth[n] = depth[e] + 1;
        from[n] = e;
        queue.push(n);
      }
    }
  }
  return best;
}

}  // namespace braid::check
