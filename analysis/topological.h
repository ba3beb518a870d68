// Orders of the nodes that keep the dependencies.
#pragma once

#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "analysis/problem.h"

namespace braid::analysis {

// Counts the missing predecessors of each node.
class Readiness {
 public:
  explicit Readiness(const Problem& p) : Readiness(p.preds, p.succs) {}
  // From the end: `needs` are the successors. Both lists must outlive this.
  Readiness(const IdLists<NodeId, NodeId>& needs, const IdLists<NodeId, NodeId>& needed_by)
      : needed_by_(&needed_by), missing_(needs.ids()) {
    for (const NodeId n : needs.ids()) missing_[n] = needs[n].size();
  }
  // Calls make_ready(node) for each that needs nothing.
  template <class MakeReady>
  void begin(MakeReady make_ready) const {
    for (const NodeId n : missing_.ids()) {
      if (missing_[n] == 0) make_ready(n);
    }
  }
  // Takes `node` and calls make_ready(node) for each that then needs nothing more.
  template <class MakeReady>
  void take(NodeId node, MakeReady make_ready) {
    for (const NodeId next : (*needed_by_)[node]) {
      if (--missing_[next] == 0) make_ready(next);
    }
  }

 private:
  const IdLists<NodeId, NodeId>* needed_by_;
  IdVector<NodeId, std::size_t> missing_;
};

// Takes the ready node with the least key, of equal ones the first in the input. Calls key(node) when the
// node becomes ready and taken(node) as soon as it is taken.
template <class KeyOf, class Taken>
Order topological_order(const Problem& p, KeyOf key, Taken taken) {
  using Entry = std::pair<decltype(key(NodeId{})), NodeId>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  const auto make_ready = [&](NodeId n) { ready.emplace(key(n), n); };
  Readiness readiness(p);
  readiness.begin(make_ready);
  Order order;
  while (!ready.empty()) {
    const NodeId n = ready.top().second;
    ready.pop();
    taken(n);
    order.push_back(n);
    readiness.take(n, make_ready);
  }
  return order;
}
template <class KeyOf>
Order topological_order(const Problem& p, KeyOf key) {
  return topological_order(p, key, [](NodeId) {});
}

}  // namespace braid::analysis
