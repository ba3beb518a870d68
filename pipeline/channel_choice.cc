#include "pipeline/channel_choice.h"

#include <algorithm>
#include <utility>

#include "ir/error.h"
#include "pipeline/add_send_recv.h"
#include "pipeline/simulate.h"
#include "pipeline/timed_transfers.h"

namespace braid::pipeline {
namespace {

class Chooser {
 public:
  Chooser(const SearchProblem& p, const PipelineCosts& costs, QueuePolicy policy)
      : problem_(p), costs_(costs), policy_(policy) {
    choice_.simulated = analysis::Time::max();
  }

  // Whether it is the best so far. All ways of placing transfers are safe under every policy; the chosen one
  // is proved afterwards.
  bool offer(const ChannelCandidate& c) {
    bool better = offer(c.orders, add_timed_send_recv(problem_, c.orders));
    better |= offer(c.orders, add_send_recv(to_schedule(problem_, c.orders)));
    if (c.published.ranks() > 0) better |= offer(c.orders, add_send_recv(c.published));
    return better;
  }

  // Exchanges two neighbours of a rank's order that differ, wherever the model allows it.
  void improve(analysis::Time lower_bound, std::int64_t budget) {
    const std::int64_t end = choice_.simulations + budget;
    for (bool progress = true; progress;) {
      progress = false;
      for (const int r : choice_.orders.ids())
        for (std::size_t j = 0; j + 1 < choice_.orders[r].size(); ++j) {
          if (choice_.simulated <= lower_bound || choice_.simulations >= end) return;
          Orders orders = choice_.orders;
          if (orders[r][j] == orders[r][j + 1]) continue;
          std::swap(orders[r][j], orders[r][j + 1]);
          const Evaluation e = evaluate(problem_, orders);
          // The channels can only make the schedule longer than in the model.
          if (e.status != Evaluation::Status::ok || e.makespan >= choice_.simulated) continue;
          if (!offer(orders, add_timed_send_recv(problem_, orders))) continue;
          ++choice_.improvements;
          progress = true;
        }
    }
  }

  analysis::Time simulated() const { return choice_.simulated; }

  ChannelChoice take() {
    choice_.certificate = require_deadlock_free(choice_.lowered, policy_);
    return std::move(choice_);
  }

 private:
  bool offer(const Orders& orders, PipelineSchedule lowered) {
    ++choice_.simulations;
    const analysis::Time t = simulate(lowered, costs_, policy_).makespan;
    if (t >= choice_.simulated) return false;
    choice_.simulated = t;
    choice_.orders = orders;
    choice_.lowered = std::move(lowered);
    return true;
  }

  const SearchProblem& problem_;
  const PipelineCosts& costs_;
  const QueuePolicy policy_;
  ChannelChoice choice_;
};

}  // namespace

ChannelChoice choose_for_channels(const SearchProblem& p, const PipelineCosts& costs, QueuePolicy policy,
                                  std::span<const ChannelCandidate> candidates, analysis::Time lower_bound,
                                  std::int64_t budget) {
  ir::internal_check(!candidates.empty(), "choose_for_channels: no candidate");
  Chooser chooser(p, costs, policy);
  int best = 0;
  analysis::Time first;
  for (int c = 0; c < count_of(candidates); ++c) {
    if (c > 0 && chooser.simulated() <= lower_bound) break;
    if (chooser.offer(candidates[ir::offset_of(c)])) best = c;
    if (c == 0) first = chooser.simulated();
  }
  chooser.improve(lower_bound, budget);
  ChannelChoice out = chooser.take();
  out.candidate = best;
  out.first_candidate = first;
  return out;
}

}  // namespace braid::pipeline
