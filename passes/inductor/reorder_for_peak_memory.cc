#include "passes/inductor/reorder_for_peak_memory.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "analysis/offset_assignment.h"
#include "analysis/topological.h"
#include "passes/overlap/early_releases.h"
#include "passes/overlap/reorder.h"

namespace braid::passes {
namespace {

using namespace analysis;

// Values at places: the least of a prefix, and the first place with a value.
class PrefixMin {
 public:
  using Value = std::pair<std::int64_t, NodeId>;
  static constexpr Value kNone = {std::numeric_limits<std::int64_t>::max(),
                                  NodeId{std::numeric_limits<std::int32_t>::max()}};

  explicit PrefixMin(std::size_t size) {
    while (width_ < size) width_ *= 2;
    tree_.assign(2 * width_, kNone);
  }
  void set(Position at, Value value) {
    std::size_t place = ir::offset_of(at) + width_;
    tree_[place] = value;
    while (place /= 2) tree_[place] = std::min(tree_[2 * place], tree_[2 * place + 1]);
  }
  Value min_before(Position end) const {
    Value best = kNone;
    std::size_t lo = width_, hi = width_ + ir::offset_of(end);
    for (; lo < hi; lo /= 2, hi /= 2) {
      if (lo & 1) best = std::min(best, tree_[lo++]);
      if (hi & 1) best = std::min(best, tree_[--hi]);
    }
    return best;
  }
  Position first() const {  // the lowest place that has a value; there must be one
    std::size_t node = 1;
    while (node < width_) node = tree_[2 * node] == kNone ? 2 * node + 1 : 2 * node;
    return ir::id_at<Position>(node - width_);
  }

 private:
  std::size_t width_ = 1;
  std::vector<Value> tree_;
};

class Lpmf {
 public:
  Lpmf(const Problem& p, const MemoryModel& memory)
      : p_(p),
        memory_(memory),
        ready_(p.nodes().size()),
        size_(p.nodes(), 0),
        freed_(p.nodes(), 0),
        is_ready_(p.nodes(), 0),
        born_(memory.tenants().ids(), 0) {
    for (const Tenant& tenant : memory.tenants()) {
      size_[tenant.nodes.front()] += tenant.bytes;
      left_.push_back(tenant.nodes.size());
      NodeId all{0};
      for (const NodeId n : tenant.nodes) all.index ^= n.index;
      all_left_.push_back(all);
      if (left_.back() == 1 && !tenant.to_end) freed_[tenant.nodes.front()] += tenant.bytes;
    }
    by_size_ = identity_order(p.nodes());
    std::ranges::stable_sort(by_size_, {}, [&](NodeId n) { return size_[n]; });
    place_ = positions_of(by_size_);
  }

  Order run() {
    Order order;
    Readiness readiness(p_);
    readiness.begin([&](NodeId n) { make_ready(n); });
    std::int64_t live = 0, peak = 0;
    // Every order reaches what lives at the end.
    for (const Tenant& t : memory_.tenants()) peak = checked_add(peak, t.to_end ? t.bytes : 0);
    while (order.size() < p_.nodes().size()) {
      PrefixMin::Value best = least_of(peak - live);
      // None fits: take one of the smallest size.
      if (best == PrefixMin::kNone) best = least_of(size_[by_size_[ready_.first()]]);
      const NodeId node = best.second;
      ready_.set(place_[node], PrefixMin::kNone);
      is_ready_[node] = 0;
      order.push_back(node);
      take(node, live, peak);
      readiness.take(node, [&](NodeId n) { make_ready(n); });
    }
    return order;
  }

 private:
  const Problem& p_;
  const MemoryModel& memory_;
  PrefixMin ready_;
  // Bytes born there in the input order, and bytes that would die there now.
  IdVector<NodeId, std::int64_t> size_, freed_;
  IdVector<NodeId, char> is_ready_;
  IdVector<TenantId, char> born_;
  IdVector<TenantId, std::size_t> left_;  // number of remaining nodes
  IdVector<TenantId, NodeId> all_left_;   // their exclusive or: if one remains, that node
  Order by_size_;
  IdVector<NodeId, Position> place_;

  // Returns the ready node of at most this size that leaves the fewest bytes alive.
  PrefixMin::Value least_of(std::int64_t size) const {
    return ready_.min_before(*std::ranges::partition_point(
        by_size_.ids(), [&](Position k) { return size_[by_size_[k]] <= size; }));
  }

  void make_ready(NodeId n) {
    is_ready_[n] = 1;
    ready_.set(place_[n], {size_[n] - freed_[n], n});
  }
  void take(NodeId node, std::int64_t& live, std::int64_t& peak) {
    std::int64_t dead = 0;
    for (TenantId t : memory_.touched_by(node)) {
      const Tenant& tenant = memory_.tenants()[t];
      if (born_[t] == 0) {
        born_[t] = 1;
        live += tenant.bytes;
      }
      all_left_[t].index ^= node.index;
      if (--left_[t] == 0) {
        if (!tenant.to_end) dead += tenant.bytes;
      } else if (left_[t] == 1 && !tenant.to_end) {
        const NodeId last = all_left_[t];
        freed_[last] += tenant.bytes;
        if (is_ready_[last] != 0) make_ready(last);
      }
    }
    peak = std::max(peak, live);
    live -= dead;
  }
};

Order breadth_first(const Problem& p) {
  IdVector<NodeId, Position> position(p.nodes());
  Position next{0};
  // Positions of the predecessors, ascending.
  const auto key = [&](NodeId n) {
    std::vector<Position> key;
    for (const NodeId before : p.predecessors(n)) key.push_back(position[before]);
    std::ranges::sort(key);
    return key;
  };
  return topological_order(p, key, [&](NodeId n) { position[n] = next++; });
}

Order depth_first(const Problem& p, const MemoryModel& memory, bool from_unused_only) {
  IdVector<NodeId, std::int64_t> weight(p.nodes(), 0);  // bytes that the node touches
  for (const NodeId n : p.nodes()) {
    for (const TenantId t : memory.touched_by(n)) weight[n] += memory.tenants()[t].bytes;
  }
  const auto by_weight = [&](std::vector<NodeId> nodes) {
    std::ranges::stable_sort(nodes, {}, [&](NodeId n) { return weight[n]; });
    return nodes;
  };
  std::vector<NodeId> roots;
  for (const NodeId n : p.nodes()) {
    if (!from_unused_only || p.successors(n).empty()) roots.push_back(n);
  }
  struct Frame {
    NodeId node;
    std::vector<NodeId> needs;
    std::size_t next = 0;
  };
  IdVector<NodeId, char> seen(p.nodes(), 0);
  const auto open = [&](NodeId n) {
    seen[n] = 1;
    const std::span<const NodeId> needs = p.predecessors(n);
    return Frame{n, by_weight({needs.begin(), needs.end()})};
  };
  Order order;
  for (const NodeId root : by_weight(std::move(roots))) {
    if (seen[root] != 0) continue;
    std::vector<Frame> stack = {open(root)};
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.next == top.needs.size()) {
        order.push_back(top.node);
        stack.pop_back();
      } else if (const NodeId before = top.needs[top.next++]; seen[before] == 0) {
        stack.push_back(open(before));
      }
    }
  }
  return order;
}

}  // namespace

bool ReorderForPeakMemory::run(ir::Schedule& schedule, PassContext& context) {
  const auto best_of_all = [](Reordering& r) {
    Order best = identity_order(r.problem.nodes());
    std::int64_t peak = r.memory.live(best).peak;
    Order others[] = {Lpmf(r.problem, r.memory).run(), breadth_first(r.problem),
                      depth_first(r.problem, r.memory, false), depth_first(r.problem, r.memory, true)};
    for (Order& other : others) {
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
