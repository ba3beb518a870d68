#include "analysis/moved_orders.h"

namespace braid::analysis {
namespace {

constexpr int kStride = 32;  // nodes between checkpoints

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

MovedOrders::MovedOrders(const Problem& problem) : problem_(problem) {
  Simulator s(problem);
  for (int n = 0; n < problem.size(); ++n) {
    if (n % kStride == 0) checkpoints_.push_back(s);
    begin_.push_back(s.now());
    s.append(n);
  }
  begin_.push_back(s.now());
  makespan_ = s.finish();
}

Time MovedOrders::makespan_with(int first, std::span<const int> nodes) {
  const int from = first / kStride;
  Simulator s = checkpoints_[at(from)];
  for (int n = from * kStride; n < first; ++n) s.append(n);
  for (const int n : nodes) s.append(n);
  appends_ += first - from * kStride + static_cast<std::int64_t>(nodes.size());
  for (int n = first + static_cast<int>(nodes.size()); n < problem_.size(); ++n, ++appends_) {
    if (n % kStride == 0) {
      const Simulator& before = checkpoints_[at(n / kStride)];
      if (s.same_in_flight(before)) return makespan_ + (s.now() - before.now());
    }
    s.append(n);
  }
  return s.finish();
}

}  // namespace braid::analysis
