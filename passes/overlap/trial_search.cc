#include "passes/overlap/trial_search.h"

#include "analysis/bounds.h"
#include "analysis/memory_model.h"

namespace braid::passes {

using namespace analysis;

std::optional<FoundOrder> order_within(const ir::Schedule& schedule, const CostModel& costs,
                                       const OrderSearchOptions& options, bool channel_order, Time most) {
  const Problem problem = make_problem(schedule, costs, {.channel_order = channel_order});
  OrderSearchOptions bounded = options;
  bounded.bound = lower_bounds(problem).best();
  if (bounded.bound > most) return std::nullopt;
  const MemoryModel model(schedule);
  const LiveBytes live(model, false);
  const OrderMemory memory{&live, [&](OrderView order) { return model.planned_bytes(order); }};
  return search_order(problem, memory, bounded);
}

FoundOrder order_of(const ir::Schedule& schedule, const CostModel& costs, const OrderSearchOptions& options,
                    bool channel_order) {
  return *order_within(schedule, costs, options, channel_order, Time::max());
}

TrialSearch::TrialSearch(Scheduled& best, const CostModel& costs, const OrderSearchOptions& full,
                         bool channel_order, int tries)
    : best_(best),
      costs_(costs),
      full_(full),
      channel_order_(channel_order),
      tries_(tries),
      base_(best.schedule) {
  apply_order(base_, best.found.order);
  problem_ = make_problem(base_, costs, {.channel_order = channel_order});
}

Time TrialSearch::above_bound() const { return best_.found.makespan - input_bound(problem_); }

void TrialSearch::order_best() {
  constexpr int kLarge = 20'000;  // nodes
  if (problem_.size() > kLarge) return;
  FoundOrder thorough = order_of(best_.schedule, costs_, full_, channel_order_);
  if (thorough.keeps_cap && thorough.makespan <= best_.found.makespan) best_.found = std::move(thorough);
}

}  // namespace braid::passes
