#include "analysis/moved_orders.h"

namespace braid::analysis {
namespace {

constexpr int kStride = 32;  // nodes between checkpoints

}  // namespace

MovedOrders::MovedOrders(const Problem& problem) : problem_(problem) {
  Simulator s(problem);
  for (NodeId n : problem.nodes()) {
    if (n.index % kStride == 0) checkpoints_.push_back(s);
    begin_.push_back(s.now());
    s.append(n);
  }
  begin_.push_back(s.now());
  makespan_ = s.finish();
}

Time MovedOrders::makespan_with(NodeId first, std::span<const NodeId> nodes) {
  const NodeId from = first - first.index % kStride;
  Simulator s = checkpoints_[from.index / kStride];
  for (const NodeId n : IdRange(from, first)) s.append(n);
  for (const NodeId n : nodes) s.append(n);
  appends_ += first - from + std::ssize(nodes);
  for (NodeId n = first + count_of(nodes); n.index < problem_.size(); ++n, ++appends_) {
    if (n.index % kStride == 0) {
      const Simulator& before = checkpoints_[n.index / kStride];
      if (s.same_in_flight(before)) return makespan_ + (s.now() - before.now());
    }
    s.append(n);
  }
  return s.finish();
}

}  // namespace braid::analysis
