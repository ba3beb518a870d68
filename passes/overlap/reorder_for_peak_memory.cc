#include "passes/overlap/reorder_for_peak_memory.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

#include "analysis/offset_assignment.h"
#include "passes/overlap/early_releases.h"
#include "passes/overlap/reorder.h"

namespace braid::passes {
namespace {

using namespace analysis;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// The least value of a prefix, and the first place that has any value.
class PrefixMin {
 public:
  using Value = std::pair<std::int64_t, int>;
  static constexpr Value kNone = {std::numeric_limits<std::int64_t>::max(), std::numeric_limits<int>::max()};

  explicit PrefixMin(std::size_t size) {
    while (width_ < size) width_ *= 2;
    tree_.assign(2 * width_, kNone);
  }
  void set(std::size_t place, Value value) {
    tree_[place += width_] = value;
    while (place /= 2) tree_[place] = std::min(tree_[2 * place], tree_[2 * place + 1]);
  }
  Value min_before(std::size_t end) const {
    Value best = kNone;
    std::size_t lo = width_, hi = width_ + end;
    for (; lo < hi; lo /= 2, hi /= 2) {
      if (lo & 1) best = std::min(best, tree_[lo++]);
      if (hi & 1) best = std::min(best, tree_[--hi]);
    }
    return best;
  }
  std::size_t first() const {  // the lowest place that has a value; there must be one
    std::size_t node = 1;
    while (node < width_) node = tree_[2 * node] == kNone ? 2 * node + 1 : 2 * node;
    return node - width_;
  }

 private:
  std::size_t width_ = 1;
  std::vector<Value> tree_;
};

class Lpmf {
 public:
  Lpmf(const Problem& p, const MemoryModel& memory) : p_(p), memory_(memory), ready_(at(p.size())) {
    const std::size_t n = at(p.size());
    size_.assign(n, 0);
    freed_.assign(n, 0);
    is_ready_.assign(n, false);
    for (std::size_t t = 0; t < memory.tenants().size(); ++t) {
      const Tenant& tenant = memory.tenants()[t];
      size_[at(tenant.nodes.front())] += tenant.bytes;
      left_.push_back(static_cast<int>(tenant.nodes.size()));
      // A sum of the nodes that are left names the last one.
      sum_left_.push_back(std::accumulate(tenant.nodes.begin(), tenant.nodes.end(), std::int64_t{0}));
      born_.push_back(false);
      if (left_.back() == 1 && !tenant.to_end) freed_[at(tenant.nodes.front())] += tenant.bytes;
    }
    by_size_.resize(n);
    std::iota(by_size_.begin(), by_size_.end(), 0);
    std::stable_sort(by_size_.begin(), by_size_.end(),
                     [&](int a, int b) { return size_[at(a)] < size_[at(b)]; });
    place_.resize(n);
    for (std::size_t k = 0; k < n; ++k) place_[at(by_size_[k])] = k;
  }

  std::vector<int> run() {
    std::vector<int> missing, order;
    for (int n = 0; n < p_.size(); ++n) {
      missing.push_back(static_cast<int>(p_.predecessors(n).size()));
      if (missing.back() == 0) make_ready(n);
    }
    std::int64_t live = 0, peak = 0;
    // What lives at the end is reached in any order.
    for (const Tenant& t : memory_.tenants()) peak = checked_add(peak, t.to_end ? t.bytes : 0);
    while (static_cast<int>(order.size()) < p_.size()) {
      PrefixMin::Value best = least_of(peak - live);
      // None fits: of the smallest size.
      if (best == PrefixMin::kNone) best = least_of(size_[at(by_size_[ready_.first()])]);
      const int node = best.second;
      ready_.set(place_[at(node)], PrefixMin::kNone);
      is_ready_[at(node)] = false;
      order.push_back(node);
      take(node, live, peak);
      for (int after : p_.successors(node)) {
        if (--missing[at(after)] == 0) make_ready(after);
      }
    }
    return order;
  }

 private:
  const Problem& p_;
  const MemoryModel& memory_;
  PrefixMin ready_;
  std::vector<std::int64_t> size_,
      freed_;  // per node: bytes born there in the input order, bytes that die there now
  std::vector<bool> is_ready_;
  std::vector<int> left_;
  std::vector<std::int64_t> sum_left_;
  std::vector<bool> born_;
  std::vector<int> by_size_;
  std::vector<std::size_t> place_;

  // Of the ready nodes of at most this size, the one that leaves the least behind.
  PrefixMin::Value least_of(std::int64_t size) const {
    const auto end =
        std::partition_point(by_size_.begin(), by_size_.end(), [&](int n) { return size_[at(n)] <= size; });
    return ready_.min_before(static_cast<std::size_t>(end - by_size_.begin()));
  }

  void make_ready(int n) {
    is_ready_[at(n)] = true;
    ready_.set(place_[at(n)], {size_[at(n)] - freed_[at(n)], n});
  }
  void take(int node, std::int64_t& live, std::int64_t& peak) {
    std::int64_t dead = 0;
    for (int t : memory_.touched_by(node)) {
      const Tenant& tenant = memory_.tenants()[at(t)];
      if (!born_[at(t)]) {
        born_[at(t)] = true;
        live += tenant.bytes;
      }
      sum_left_[at(t)] -= node;
      if (--left_[at(t)] == 0) {
        if (!tenant.to_end) dead += tenant.bytes;
      } else if (left_[at(t)] == 1 && !tenant.to_end) {
        const int last = static_cast<int>(sum_left_[at(t)]);
        freed_[at(last)] += tenant.bytes;
        if (is_ready_[at(last)]) make_ready(last);
      }
    }
    peak = std::max(peak, live);
    live -= dead;
  }
};

std::vector<int> breadth_first(const Problem& p) {
  using Key = std::pair<std::vector<int>, int>;  // positions of the predecessors, ascending; node
  std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
  std::vector<int> missing, position(at(p.size())), order;
  const auto make_ready = [&](int n) {
    std::vector<int> key;
    for (int before : p.predecessors(n)) key.push_back(position[at(before)]);
    std::sort(key.begin(), key.end());
    ready.emplace(std::move(key), n);
  };
  for (int n = 0; n < p.size(); ++n) {
    missing.push_back(static_cast<int>(p.predecessors(n).size()));
    if (missing.back() == 0) make_ready(n);
  }
  while (!ready.empty()) {
    const int node = ready.top().second;
    ready.pop();
    position[at(node)] = static_cast<int>(order.size());
    order.push_back(node);
    for (int after : p.successors(node)) {
      if (--missing[at(after)] == 0) make_ready(after);
    }
  }
  return order;
}

std::vector<int> depth_first(const Problem& p, const MemoryModel& memory, bool from_unused_only) {
  std::vector<std::int64_t> weight(at(p.size()), 0);  // bytes that the node touches
  for (int n = 0; n < p.size(); ++n) {
    for (int t : memory.touched_by(n)) weight[at(n)] += memory.tenants()[at(t)].bytes;
  }
  const auto by_weight = [&](std::vector<int> nodes) {
    std::stable_sort(nodes.begin(), nodes.end(), [&](int a, int b) { return weight[at(a)] < weight[at(b)]; });
    return nodes;
  };
  std::vector<int> roots, order;
  for (int n = 0; n < p.size(); ++n) {
    if (!from_unused_only || p.successors(n).empty()) roots.push_back(n);
  }
  struct Frame {
    int node;
    std::vector<int> needs;
    std::size_t next = 0;
  };
  std::vector<bool> seen(at(p.size()), false);
  const auto open = [&](int n) {
    seen[at(n)] = true;
    const std::span<const int> needs = p.predecessors(n);
    return Frame{n, by_weight({needs.begin(), needs.end()})};
  };
  for (int root : by_weight(std::move(roots))) {
    if (seen[at(root)]) continue;
    std::vector<Frame> stack = {open(root)};
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.next == top.needs.size()) {
        order.push_back(top.node);
        stack.pop_back();
      } else if (const int before = top.needs[top.next++]; !seen[at(before)]) {
        stack.push_back(open(before));
      }
    }
  }
  return order;
}

}  // namespace

bool ReorderForPeakMemory::run(ir::Schedule& schedule, PassContext& context) {
  const auto best_of_all = [](Reordering& r) {
    std::vector<int> best = identity_order(r.problem.size());
    std::int64_t peak = r.memory.live(best).peak;
    std::vector<int> others[] = {Lpmf(r.problem, r.memory).run(), breadth_first(r.problem),
                                 depth_first(r.problem, r.memory, false),
                                 depth_first(r.problem, r.memory, true)};
    for (std::vector<int>& other : others) {
      other = with_early_releases(r.problem, other);
      if (const std::int64_t p = r.memory.live(other).peak; p < peak) {
        peak = p;
        best = std::move(other);
      }
    }
    r.freedom.live_cap = peak;
    return best;
  };
  return reorder(kName, schedule, context, best_of_all, {.without_collectives = true});
}

}  // namespace braid::passes
