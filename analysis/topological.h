// Orders of the nodes that keep the dependencies, one node at a time.
#pragma once

#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "analysis/problem.h"

namespace braid::analysis {

// Counts down what each node still needs.
class Readiness {
 public:
  explicit Readiness(const Problem& p) : Readiness(p.preds, p.succs) {}
  // From the end: `needs` are the successors. Both must outlive it.
  Readiness(const IdLists<NodeId, NodeId>& needs, const IdLists<NodeId, NodeId>& needed_by)
      : needed_by_(&needed_by), missing_(needs.ids()) {
    for (const NodeId n : needs.ids()) missing_[n] = needs[n].size();
  }
  // make_ready(node): of each that needs nothing.
  template <class MakeReady>
  void begin(MakeReady make_ready) const {
    for (const NodeId n : missing_.ids()) {
      if (missing_[n] == 0) make_ready(n);
    }
  }
  // The same of each that needs nothing more, now that `node` has come.
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

// Always the ready node of the least key, of equal ones the first in the input. key(node) is asked when the node
// becomes ready; taken(node), at once, when it comes.
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
