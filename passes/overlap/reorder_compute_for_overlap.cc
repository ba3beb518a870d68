#include "passes/overlap/reorder_compute_for_overlap.h"

#include <algorithm>
#include <limits>
#include <set>

#include "ir/error.h"
#include "passes/overlap/reorder.h"

namespace braid::passes {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

class Reorderer {
 public:
  explicit Reorderer(Reordering& r) : r_(r), p_(r.problem) {
    const std::size_t n = at(p_.size());
    missing_.resize(n);
    done_.resize(n);
    mark_.assign(n, -1);
    first_comm_.assign(n, std::numeric_limits<int>::max());
    for (int k = 0; k < p_.size(); ++k) {
      if (r.starts(k)) comms_.push_back(k);
      missing_[at(k)] = static_cast<int>(p_.predecessors(k).size());
    }
    // The first collective that each node feeds.
    for (int c = static_cast<int>(comms_.size()); c-- > 0;) first_comm_[at(comms_[at(c)])] = c;
    for (int k = p_.size(); k-- > 0;) {
      for (int after : p_.successors(k))
        first_comm_[at(k)] = std::min(first_comm_[at(k)], first_comm_[at(after)]);
    }
    for (int k = 0; k < p_.size(); ++k) {
      if (missing_[at(k)] == 0) ready_.insert({first_comm_[at(k)], k});
    }
  }

  std::vector<int> run() {
    Time rolled_over;
    for (std::size_t c = 0; c < comms_.size(); ++c) {
      const int comm = comms_[c];
      const int previous = c == 0 ? -1 : comms_[c - 1];
      std::vector<int> needed = unscheduled_ancestors(comm);
      if (previous < 0) {
        for (int n : needed) emit(n);
        emit(comm);
        continue;
      }
      const Time cost = p_.collectives[at(p_.started_by(previous))].cost.time;
      Time hidden = rolled_over;
      std::vector<int> rest;
      mark_[at(previous)] = comm;  // depends on the previous collective
      for (int n : needed) {
        const bool depends =
            std::ranges::any_of(p_.predecessors(n), [&](int before) { return mark_[at(before)] == comm; });
        if (depends) {
          mark_[at(n)] = comm;
          rest.push_back(n);
          continue;
        }
        not_a_collective(n, comm);
        emit(n);
        hidden += p_.compute_time(n);
      }
      if (hidden < cost) {
        const std::vector<std::pair<int, int>> snapshot(ready_.begin(), ready_.end());
        for (const auto& [feeds, n] : snapshot) {
          if (hidden >= cost) break;
          if (std::ranges::find(p_.predecessors(n), previous) != p_.predecessors(n).end() || r_.starts(n))
            continue;
          const Time work = p_.compute_time(n);
          const Time gap = cost - hidden;
          if (work.ps > 0 && 2 * gap.ps <= work.ps) continue;  // overshoots by more than it hides
          emit(n);
          hidden += work;
        }
      }
      rolled_over = rest.empty() && hidden > cost ? hidden - cost : Time{};
      for (int n : rest) emit(n);
      Limit& limit = r_.limits[at(p_.started_by(previous))];
      limit.reason = hidden >= cost ? LimitReason::none : LimitReason::data;
      if (limit.reason == LimitReason::data) limit.other = r_.name(comm);
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
  std::vector<int> comms_;
  std::vector<int> missing_;  // predecessors that are not emitted
  std::vector<bool> done_;
  std::vector<int> mark_;
  std::vector<int> first_comm_;
  std::set<std::pair<int, int>> ready_;  // (first collective that it feeds, node)
  std::vector<int> order_;

  void emit(int n) {
    done_[at(n)] = true;
    order_.push_back(n);
    ready_.erase({first_comm_[at(n)], n});
    for (int after : p_.successors(n)) {
      if (--missing_[at(after)] == 0) ready_.insert({first_comm_[at(after)], after});
    }
  }

  // In input order, without the node itself. What is found is emitted before the next call.
  std::vector<int> unscheduled_ancestors(int node) {
    std::vector<int> found = {node};
    std::set<int> seen = {node};
    for (std::size_t k = 0; k < found.size(); ++k) {
      for (int before : p_.predecessors(found[k])) {
        if (!done_[at(before)] && seen.insert(before).second) found.push_back(before);
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
  const bool changed = reorder(kName, schedule, context, [](Reordering& r) { return Reorderer(r).run(); });
  schedule.channels = policy;
  return changed;
}

}  // namespace braid::passes
