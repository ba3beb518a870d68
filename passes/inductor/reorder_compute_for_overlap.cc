#include "passes/inductor/reorder_compute_for_overlap.h"

#include <algorithm>
#include <limits>

#include "analysis/topological.h"
#include "ir/error.h"
#include "passes/overlap/reorder.h"

namespace braid::passes {
namespace {

using namespace analysis;

// Values by rank, with a search for the first one that is small enough.
class Ranks {
 public:
  explicit Ranks(std::size_t size) {
    while (width_ < size) width_ *= 2;
    least_.assign(2 * width_, kNone);
  }
  void set(Position rank, std::int64_t value) {
    std::size_t node = ir::offset_of(rank) + width_;
    least_[node] = value;
    while (node /= 2) least_[node] = std::min(least_[2 * node], least_[2 * node + 1]);
  }
  void clear(Position rank) { set(rank, kNone); }
  // The first rank from `rank` on with a value below `bound`, if there is one.
  Position first_below(std::int64_t bound, Position rank) const {
    std::size_t node = ir::offset_of(rank) + width_;
    if (node >= least_.size()) return {};
    while (least_[node] >= bound) {
      while (node % 2 == 1) node /= 2;  // up, until there is a neighbour to the right
      if (node == 0) return {};
      ++node;
    }
    while (node < width_) node = 2 * node + (least_[2 * node] < bound ? 0 : 1);
    return ir::id_at<Position>(node - width_);
  }

 private:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  std::size_t width_ = 1;
  std::vector<std::int64_t> least_;
};

class Reorderer {
 public:
  Reorderer(Reordering& r, bool surplus_only)
      : r_(r),
        p_(r.problem),
        surplus_only_(surplus_only),
        readiness_(p_),
        done_(p_.nodes(), 0),
        seen_(p_.nodes()),
        depends_(p_.nodes()),
        fillers_(p_.nodes().size()) {
    for (const NodeId n : p_.nodes()) {
      if (r.starts(n)) comms_.push_back(n);
    }
    readiness_.begin([&](NodeId n) { ready_.push_back(n); });
    // Ranked by the first collective that each node feeds.
    const IdVector<NodeId, int> first_comm = r.first_start_of();
    by_rank_.assign(p_.nodes().begin(), p_.nodes().end());
    std::ranges::stable_sort(by_rank_, {}, [&](NodeId n) { return first_comm[n]; });
    rank_ = positions_of(by_rank_);
  }

  Order run() {
    Time rolled_over;
    for (std::size_t c = 0; c < comms_.size(); ++c) {
      const NodeId comm = comms_[c];
      const std::vector<NodeId> needed = unscheduled_ancestors(comm);
      if (c == 0) {
        for (NodeId n : needed) emit(n);
        emit(comm);
        continue;
      }
      const NodeId previous = comms_[c - 1];
      const Time cost = p_.collectives[p_.started_by(previous)].cost.time;
      depends_[previous] = comm;
      for (NodeId after : p_.successors(previous)) depends_[after] = comm;
      Time hidden = rolled_over;
      std::vector<NodeId> rest;
      for (NodeId n : needed) {
        if (std::ranges::any_of(p_.predecessors(n), [&](NodeId k) { return depends_[k] == comm; })) {
          depends_[n] = comm;
          rest.push_back(n);
          continue;
        }
        not_a_collective(n, comm);
        emit(n);
        hidden += p_.compute_time(n);
      }
      const Time without_fillers = hidden;
      if (hidden < cost) hidden = fill(hidden, cost, comm);
      rolled_over = {};
      if (rest.empty()) {
        rolled_over = surplus_only_ ? std::max(hidden, cost) - cost : hidden - without_fillers;
      }
      for (NodeId n : rest) emit(n);
      emit(comm);
    }
    for (NodeId n : p_.nodes()) {
      if (done_[n] == 0) emit(n);
    }
    return std::move(order_);
  }

 private:
  Reordering& r_;
  const Problem& p_;
  bool surplus_only_;
  Readiness readiness_;
  std::vector<NodeId> comms_;
  IdVector<NodeId, char> done_;
  IdVector<NodeId, NodeId> seen_;     // the search that found a node
  IdVector<NodeId, NodeId> depends_;  // the collective whose predecessor it was found to need
  Order by_rank_;                     // by (first collective that they feed, position)
  IdVector<NodeId, Position> rank_;
  std::vector<NodeId> ready_;  // not yet among the fillers; some have been emitted
  Ranks fillers_;              // ready nodes: their compute time
  Order order_;

  void emit(NodeId n) {
    done_[n] = 1;
    order_.push_back(n);
    fillers_.clear(rank_[n]);
    readiness_.take(n, [&](NodeId next) { ready_.push_back(next); });
  }

  // Performs step 2 of the header. Returns the compute placed after the collective.
  Time fill(Time hidden, Time cost, NodeId comm) {
    std::vector<NodeId> ready = std::move(ready_);
    ready_.clear();
    for (NodeId n : ready) {
      if (done_[n] != 0 || r_.starts(n)) continue;
      if (depends_[n] == comm) {
        ready_.push_back(n);  // for a later collective
      } else {
        fillers_.set(rank_[n], p_.compute_time(n).ps);
      }
    }
    for (Position rank{0}; hidden < cost; ++rank) {
      // A node is skipped if at most half of it fits.
      rank = fillers_.first_below(2 * (cost - hidden).ps, rank);
      if (!rank.valid()) break;
      const NodeId n = by_rank_[rank];
      emit(n);
      hidden += p_.compute_time(n);
    }
    return hidden;
  }

  // Returns the node's unscheduled ancestors in input order, without the node itself. The caller emits them
  // before the next call.
  std::vector<NodeId> unscheduled_ancestors(NodeId node) {
    std::vector<NodeId> found = {node};
    for (std::size_t k = 0; k < found.size(); ++k) {
      for (NodeId before : p_.predecessors(found[k])) {
        if (done_[before] != 0 || seen_[before] == node) continue;
        seen_[before] = node;
        found.push_back(before);
      }
    }
    found.erase(found.begin());
    std::sort(found.begin(), found.end());
    return found;
  }

  void not_a_collective(NodeId n, NodeId comm) const {
    ir::internal_check(!r_.starts(n),
                       "'{}' would hide '{}' and is a collective itself: they are not in one chain",
                       r_.name(n), r_.name(comm));
  }
};

}  // namespace

bool ReorderComputeForOverlap::run(ir::Schedule& schedule, PassContext& context) {
  // The order of the input counts for all collectives, whatever the channel policy would allow.
  const ir::ChannelPolicy policy = schedule.channels;
  schedule.channels = ir::ChannelPolicy::global;
  const bool changed =
      reorder(kName, schedule, context, [this](Reordering& r) { return Reorderer(r, surplus_only).run(); });
  schedule.channels = policy;
  return changed;
}

}  // namespace braid::passes
