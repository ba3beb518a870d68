// The frame of searches that try changes of a schedule. Each change is made on a copy and judged by the order
// that is found for the copy; the best one stays. Trials are counted, not timed.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "analysis/costs/cost_model.h"
#include "ir/schedule.h"
#include "passes/overlap/order_search.h"

namespace braid::passes {

// A schedule and the best order found for it.
struct Scheduled {
  ir::Schedule schedule;
  FoundOrder found;  // of the nodes of `schedule`
};

// Searches for the order of a schedule as it is. `channel_order`: as in ProblemOptions.
FoundOrder order_of(const ir::Schedule& schedule, const analysis::CostModel& costs,
                    const OrderSearchOptions& options, bool channel_order);

// Returns nullopt without searching if a lower bound shows that no order takes at most `most`.
std::optional<FoundOrder> order_within(const ir::Schedule& schedule, const analysis::CostModel& costs,
                                       const OrderSearchOptions& options, bool channel_order,
                                       analysis::Time most);

class TrialSearch {
 public:
  // `best` becomes what is found; `full`: how the winner's order is searched for in the end.
  TrialSearch(Scheduled& best, const analysis::CostModel& costs, const OrderSearchOptions& full,
              bool channel_order, int tries);

  // The schedule that trials change: the best one at the beginning, in its order.
  const ir::Schedule& base() const { return base_; }
  const analysis::Problem& problem() const { return problem_; }
  const analysis::CostModel& costs() const { return costs_; }
  const Scheduled& best() const { return best_; }
  bool spent() const { return tries_ <= 0; }
  // How far the best order is above the lower bound over all changes.
  analysis::Time above_bound() const;

  // Tries a change and returns whether the result became the best. change(schedule) returns false if it
  // cannot be made. is_better(schedule, found order) decides whether the result is kept; it must reject
  // orders longer than the best, which are not searched if a lower bound shows them.
  template <class Change, class IsBetter>
  bool attempt(const Change& change, const IsBetter& is_better) {
    --tries_;
    ir::Schedule changed = base_;
    if (!change(changed)) return false;
    OrderSearchOptions quick = full_;  // trials are many
    quick.quick = true;
    std::optional<FoundOrder> found =
        order_within(changed, costs_, quick, channel_order_, best_.found.makespan);
    if (!found || !found->keeps_cap || !is_better(changed, *found)) return false;
    best_ = {std::move(changed), std::move(*found)};
    return true;
  }
  // Calls attempt(fewer) without each half, quarter, ... of `chosen`; parts whose removal does no harm stay
  // removed. The number of parts is at most `most_parts` and `per_entry` times the number of entries.
  template <class T, class Attempt>
  void leave_out_parts(std::vector<T>& chosen, std::size_t most_parts, std::size_t per_entry,
                       const Attempt& attempt) {
    for (std::size_t parts = 2; parts <= most_parts && parts <= per_entry * chosen.size(); parts *= 2) {
      for (std::size_t k = parts; k-- > 0 && !spent();) {
        const std::size_t n = chosen.size(), from = n * k / parts, to = n * (k + 1) / parts;
        std::vector<T> fewer;
        for (std::size_t i = 0; i < n; ++i) {
          if (i < from || i >= to) fewer.push_back(chosen[i]);
        }
        if (from != to && !fewer.empty() && attempt(fewer)) chosen = std::move(fewer);
      }
    }
  }
  // Searches at length for the order of the best one, unless there are so many nodes that a trial's is good
  // enough.
  void order_best();

 private:
  Scheduled& best_;
  const analysis::CostModel& costs_;
  const OrderSearchOptions& full_;
  bool channel_order_;
  int tries_;
  ir::Schedule base_;
  analysis::Problem problem_;
};

}  // namespace braid::passes
