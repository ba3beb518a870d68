#include "passes/rivals/latency_hiding.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <tuple>

#include "analysis/simulator.h"
#include "analysis/topological.h"
#include "passes/overlap/early_releases.h"
#include "passes/overlap/reorder.h"

namespace braid::passes {
namespace {

using namespace analysis;

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

class BottomUp {
 public:
  // `stall`: rule 4 may stall even if there is compute.
  BottomUp(const Reordering& r, std::int64_t in_flight, std::int64_t memory_limit, bool stall)
      : r_(r), p_(r.problem), in_flight_(in_flight), memory_limit_(memory_limit), stall_(stall) {
    depth_.assign(p_.nodes(), 0);
    path_.assign(p_.nodes(), {});
    // From the front: the number of collectives on the way to a node, and the longest path to it.
    for (const NodeId k : p_.nodes()) {
      for (NodeId before : p_.predecessors(k)) {
        depth_[k] = std::max(depth_[k], depth_[before]);
        path_[k] = std::max(path_[k], path_[before]);
      }
      path_[k] += p_.compute_time(k);
      if (const CollectiveId c = p_.waited_by(k); c.valid()) {
        ++depth_[k];
        path_[k] += p_.collectives[c].cost.time;
      }
    }
    // Releases do not count: in the end they stand right after the nodes on which they depend.
    for (const Tenant& t : r.memory.tenants()) {
      left_.push_back(std::ranges::count_if(t.nodes, [&](NodeId node) { return !only_releases(p_, node); }));
    }
    alive_.assign(left_.ids(), 0);
    for (const TenantId t : alive_.ids()) {
      if (r.memory.tenants()[t].to_end) {
        alive_[t] = 1;
        live_ += r.memory.tenants()[t].bytes;
      }
    }
  }

  Order run() {
    readiness_.begin([&](NodeId n) { make_ready(n); });
    while (reversed_.size() < p_.nodes().size()) {
      if (releases_.empty()) {
        place(choose());
      } else {
        const NodeId release = releases_.back();
        releases_.pop_back();
        place(release);
      }
    }
    std::reverse(reversed_.begin(), reversed_.end());
    return with_early_releases(p_, reversed_);
  }

 private:
  // (collectives on the way, path, node): the largest first. Waits by the kind of their collective.
  using Key = std::tuple<int, Time, NodeId>;
  static constexpr std::size_t kKinds = 7;

  const Reordering& r_;
  const Problem& p_;
  std::int64_t in_flight_, memory_limit_;
  bool stall_;
  IdVector<NodeId, int> depth_;
  IdVector<NodeId, Time> path_;
  Readiness readiness_{p_.succs, p_.preds};
  Order reversed_;
  std::vector<NodeId> releases_;  // ready ones
  std::set<Key> compute_;
  std::array<std::set<Key>, kKinds> waits_;
  struct LaterFirst {
    bool operator()(const std::pair<Time, NodeId>& a, const std::pair<Time, NodeId>& b) const {
      return std::pair(a.first, b.second) < std::pair(b.first, a.second);
    }
  };
  std::set<std::pair<Time, NodeId>, LaterFirst> starts_;  // by the time at which they are covered
  std::array<std::int64_t, kKinds> open_{};
  Time now_;
  IdVector<CollectiveId, Time> covered_at_{p_.collectives.ids()};
  IdVector<TenantId, std::ptrdiff_t> left_;  // nodes
  IdVector<TenantId, char> alive_;
  std::int64_t live_ = 0;

  std::size_t kind_of(CollectiveId collective) const {
    return static_cast<std::size_t>(
        r_.schedule.graph[p_.collectives[collective].op].as<ir::CollectiveKernel>()->kind);
  }
  // A node that waits and starts (a group, a blocking collective) counts as compute: it opens and closes its
  // windows itself.
  bool opens(NodeId n) const { return p_.waited_by(n).valid() && !p_.started_by(n).valid(); }
  bool closes(NodeId n) const {
    const CollectiveId c = p_.started_by(n);
    return c.valid() && !p_.waited_by(n).valid() && p_.collectives[c].wait.valid();
  }
  Key key(NodeId n) const { return {depth_[n], path_[n], n}; }

  void make_ready(NodeId n) {
    if (only_releases(p_, n)) {
      releases_.push_back(n);
    } else if (closes(n)) {
      starts_.emplace(covered_at_[p_.started_by(n)], n);
    } else if (opens(n)) {
      waits_[kind_of(p_.waited_by(n))].insert(key(n));
    } else {
      compute_.insert(key(n));
    }
  }

  // Returns the bytes alive before the node minus those after it.
  std::int64_t growth(NodeId n) const {
    std::int64_t bytes = 0;
    for (TenantId t : r_.memory.touched_by(n)) {
      const std::int64_t size = r_.memory.tenants()[t].bytes;
      if (alive_[t] == 0) bytes += size;
      if (left_[t] == 1) bytes -= size;
    }
    return bytes;
  }

  NodeId choose() const {
    if (live_ > memory_limit_) {
      // The best few of each list suffice.
      NodeId best;
      std::int64_t least = kNoLimit;
      const auto look = [&](NodeId n) {
        if (const std::int64_t g = growth(n); g < least) {
          least = g;
          best = n;
        }
      };
      int looked = 0;
      for (auto k = compute_.rbegin(); k != compute_.rend() && looked < 32; ++k, ++looked)
        look(std::get<2>(*k));
      looked = 0;
      for (auto k = starts_.begin(); k != starts_.end() && looked < 32; ++k, ++looked) look(k->second);
      for (std::size_t kind = 0; kind < kKinds; ++kind) {
        if (open_[kind] < in_flight_ && !waits_[kind].empty()) look(std::get<2>(*waits_[kind].rbegin()));
      }
      if (best.valid()) return best;
    }
    if (!starts_.empty() && starts_.begin()->first <= now_) return starts_.begin()->second;
    const Key* wait = nullptr;
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      if (waits_[kind].empty() || open_[kind] >= in_flight_) continue;
      if (wait == nullptr || *waits_[kind].rbegin() > *wait) wait = &*waits_[kind].rbegin();
    }
    if (wait != nullptr) return std::get<2>(*wait);
    if (!stall_ && !compute_.empty()) return std::get<2>(*compute_.rbegin());
    for (const auto& [covered, node] : starts_) {
      if (!waits_[kind_of(p_.started_by(node))].empty()) return node;
    }
    if (!compute_.empty()) return std::get<2>(*compute_.rbegin());
    if (!starts_.empty()) return starts_.begin()->second;
    // Only waits without a free resource are left, and nothing can free one, so one is opened anyway.
    for (const std::set<Key>& kind : waits_) {
      if (!kind.empty() && (wait == nullptr || *kind.rbegin() > *wait)) wait = &*kind.rbegin();
    }
    return std::get<2>(*wait);
  }

  void place(NodeId n) {
    reversed_.push_back(n);
    if (closes(n)) {
      const CollectiveId c = p_.started_by(n);
      starts_.erase({covered_at_[c], n});
      now_ = std::max(now_, covered_at_[c]);
      --open_[kind_of(c)];
    } else if (opens(n)) {
      const CollectiveId c = p_.waited_by(n);
      waits_[kind_of(c)].erase(key(n));
      ++open_[kind_of(c)];
      covered_at_[c] = now_ + p_.collectives[c].cost.time;
    } else {
      compute_.erase(key(n));
      now_ += p_.compute_time(n);
      for (const Step& s : p_.steps_of(n)) {
        if (s.kind == Step::Kind::start) now_ += p_.collectives[s.collective].cost.time;
      }
    }
    const bool releases = only_releases(p_, n);
    for (TenantId t : r_.memory.touched_by(n)) {
      if (releases) break;
      if (alive_[t] == 0) {
        alive_[t] = 1;
        live_ += r_.memory.tenants()[t].bytes;
      }
      if (--left_[t] == 0) {
        alive_[t] = 0;
        live_ -= r_.memory.tenants()[t].bytes;
      }
    }
    readiness_.take(n, [&](NodeId before) { make_ready(before); });
  }
};

}  // namespace

Order LatencyHiding::order_of(const Reordering& r, bool stall) const {
  Order order = BottomUp(r, in_flight, kNoLimit, stall).run();
  if (!r.context.memory_cap) return order;
  const std::int64_t cap = *r.context.memory_cap;
  std::int64_t limit = cap;
  for (std::int64_t k = 0; k < reruns && r.memory.planned_bytes(order) > cap; ++k) {
    limit = limit / 10 * 9;
    order = BottomUp(r, in_flight, limit, stall).run();
  }
  if (r.memory.planned_bytes(order) > cap) return identity_order(r.problem.nodes());
  return order;
}

bool LatencyHiding::run(ir::Schedule& schedule, PassContext& context) {
  return reorder(kName, schedule, context,
                 [this](Reordering& r) {
                   r.freedom.planned_cap = r.context.memory_cap;
                   Order first = order_of(r, true), second = order_of(r, false);
                   return simulate_makespan(r.problem, second) < simulate_makespan(r.problem, first) ? second
                                                                                                     : first;
                 },
                 {.may_reorder_collectives = true});
}

static const RegisterPass<LatencyHiding> registered;

}  // namespace braid::passes
