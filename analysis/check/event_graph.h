// Events that happen once, and which of them must precede which: the core of deadlock proofs. If the graph is
// acyclic, all events happen in some order, whatever the timing. Otherwise a shortest cycle is the witness.
#pragma once

#include <optional>
#include <vector>

#include "ir/id_vector.h"

namespace braid::check {

class EventGraph {
 public:
  int add_event() {
    next_.emplace_back();
    return size() - 1;
  }
  // `first` must have happened before `then` can. Parallel edges are harmless.
  void add_edge(int first, int then) { next_[first].push_back(then); }
  int size() const { return next_.end_id(); }

  // An order in which all events can happen (the smallest numbers first), or none. O((V + E) log V).
  std::optional<std::vector<int>> order() const;

  // Returns a cycle with the fewest events; each has an edge to the next, the last to the first. Empty if
  // there is none. The search begins at no more than `sources` of the events that may lie on cycles. In a
  // huge component the cycle is therefore only the shortest through these.
  std::vector<int> shortest_cycle(int sources = 2000) const;

 private:
  using Edges = ir::IdVector<int, std::vector<int>>;
  Edges next_;
};

}  // namespace braid::check
