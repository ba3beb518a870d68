#include "passes/overlap/reorder_compute_for_overlap.h"

#include <algorithm>
#include <limits>

#include "ir/error.h"
#include "passes/overlap/reorder.h"

namespace braid::passes {
namespace {

using namespace analysis;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Values by rank, and the first one that is small enough.
class Ranks {
 public:
  explicit Ranks(std::size_t size) {
    while (width_ < size) width_ *= 2;
    least_.assign(2 * width_, kNone);
  }
  void set(int rank, std::int64_t value) {
    std::size_t node = at(rank) + width_;
    least_[node] = value;
    while (node /= 2) least_[node] = std::min(least_[2 * node], least_[2 * node + 1]);
  }
  void clear(int rank) { set(rank, kNone); }
  // From this rank on, the first with a value below `bound`; -1 if there is none.
  int first_below(std::int64_t bound, int rank) const {
    std::size_t node = at(rank) + width_;
    if (node >= least_.size()) return -1;
    while (least_[node] >= bound) {
      while (node % 2 == 1) node /= 2;  // up, until there is a neighbour to the right
      if (node == 0) return -1;
      ++node;
    }
    while (node < width_) node = 2 * node + (least_[2 * node] < bound ? 0 : 1);
    return static_cast<int>(node - width_);
  }

 private:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  std::size_t width_ = 1;
  std::vector<std::int64_t> least_;
};

class Reorderer {
 public:
  Reorderer(Reordering& r, bool surplus_only)
      : r_(r), p_(r.problem), surplus_only_(surplus_only), fillers_(at(p_.size())) {
    const std::size_t n = at(p_.size());
    missing_.resize(n);
    done_.resize(n);
    seen_.assign(n, -1);
    depends_.assign(n, -1);
    for (int k = 0; k < p_.size(); ++k) {
      if (r.starts(k)) comms_.push_back(k);
      missing_[at(k)] = static_cast<int>(p_.predecessors(k).size());
      if (missing_[at(k)] == 0) ready_.push_back(k);
    }
    // The first collective that each node feeds.
    std::vector<int> first_comm(n, std::numeric_limits<int>::max());
    for (int c = static_cast<int>(comms_.size()); c-- > 0;) first_comm[at(comms_[at(c)])] = c;
    for (int k = p_.size(); k-- > 0;) {
      for (int after : p_.successors(k))
        first_comm[at(k)] = std::min(first_comm[at(k)], first_comm[at(after)]);
    }
    by_rank_ = identity_order(p_.size());
    std::ranges::stable_sort(by_rank_, {}, [&](int k) { return first_comm[at(k)]; });
    rank_.resize(n);
    for (std::size_t k = 0; k < n; ++k) rank_[at(by_rank_[k])] = static_cast<int>(k);
  }

  std::vector<int> run() {
    Time rolled_over;
    for (std::size_t c = 0; c < comms_.size(); ++c) {
      const int comm = comms_[c];
      const std::vector<int> needed = unscheduled_ancestors(comm);
      if (c == 0) {
        for (int n : needed) emit(n);
        emit(comm);
        continue;
      }
      const int previous = comms_[c - 1];
      const Time cost = p_.collectives[at(p_.started_by(previous))].cost.time;
      depends_[at(previous)] = comm;
      for (int after : p_.successors(previous)) depends_[at(after)] = comm;
      Time hidden = rolled_over;
      std::vector<int> rest;
      for (int n : needed) {
        if (std::ranges::any_of(p_.predecessors(n), [&](int k) { return depends_[at(k)] == comm; })) {
          depends_[at(n)] = comm;
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
      for (int n : rest) emit(n);
      emit(comm);
    }
    for (int n = 0; n < p_.size(); ++n) {
      if (!done_[at(n)]) emit(n);
    }
    return std::move(order_);
  }

 private:
  Reordering& r_;
  const Problem& p_;
  bool surplus_only_;
  std::vector<int> comms_;
  std::vector<int> missing_;  // predecessors that are not emitted
  std::vector<bool> done_;
  std::vector<int> seen_;     // the search that found a node
  std::vector<int> depends_;  // the collective in front of which it was found to depend on the previous one
  std::vector<int> by_rank_, rank_;  // nodes by (first collective that they feed, position)
  std::vector<int> ready_;           // and not yet among the fillers; some have been emitted
  Ranks fillers_;                    // ready nodes: their compute time
  std::vector<int> order_;

  void emit(int n) {
    done_[at(n)] = true;
    order_.push_back(n);
    fillers_.clear(rank_[at(n)]);
    for (int after : p_.successors(n)) {
      if (--missing_[at(after)] == 0) ready_.push_back(after);
    }
  }

  // Step 2 of the header. Returns what is hidden behind it.
  Time fill(Time hidden, Time cost, int comm) {
    std::vector<int> ready = std::move(ready_);
    ready_.clear();
    for (int n : ready) {
      if (done_[at(n)] || r_.starts(n)) continue;
      if (depends_[at(n)] == comm) {
        ready_.push_back(n);  // for a later collective
      } else {
        fillers_.set(rank_[at(n)], p_.compute_time(n).ps);
      }
    }
    for (int rank = 0; hidden < cost; ++rank) {
      // A node of which no more than half fits is skipped.
      rank = fillers_.first_below(2 * (cost - hidden).ps, rank);
      if (rank < 0) break;
      const int n = by_rank_[at(rank)];
      emit(n);
      hidden += p_.compute_time(n);
    }
    return hidden;
  }

  // In input order, without the node itself. What is found is emitted before the next call.
  std::vector<int> unscheduled_ancestors(int node) {
    std::vector<int> found = {node};
    for (std::size_t k = 0; k < found.size(); ++k) {
      for (int before : p_.predecessors(found[k])) {
        if (done_[at(before)] || seen_[at(before)] == node) continue;
        seen_[at(before)] = node;
        found.push_back(before);
      }
    }
    found.erase(found.begin());
    std::sort(found.begin(), found.end());
    return found;
  }

  void not_a_collective(int n, int comm) const {
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
