// Shortens an order by moves whose effect is simulated exactly.
//
//   raise    a start of a collective that is exposed goes up, and what it depends on in between goes with it
//   sink     a wait in which the stream is blocked goes down, and what depends on it in between goes with it
//   window   some consecutive nodes are put in the best order that a beam search finds; its estimate of an
//            order is how long the rest takes from there (tails.h), so it looks beyond its window
//
// The state of the simulator is kept every few positions. A move is simulated from the state before it until
// the states agree again, from where everything is only shifted, or until it is seen to gain nothing. Cost is
// counted in appends to a simulator; the budget is a number of them, never a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/live_order.h"
#include "analysis/problem.h"
#include "analysis/simulator.h"
#include "analysis/tails.h"

namespace braid::passes {

struct SearchBudget {
  std::int64_t appends = 0;  // left
  bool spent() const { return appends <= 0; }
};

class LocalSearch {
 public:
  // `live`: may be null; else no move takes the sum of the peaks above `limit`, unless they are there from
  // the start. `bound`: no order is shorter, so the search ends there.
  LocalSearch(const analysis::Problem& problem, const analysis::LiveBytes* live, std::int64_t limit,
              analysis::Time bound);

  void set(analysis::Order order);
  const analysis::Order& order() const { return live_.order(); }
  analysis::Time makespan() const { return makespan_; }

  // Repeats all moves until none gains anything or the budget is spent. Returns whether the order changed.
  bool improve(SearchBudget& budget);
  // Random legal moves followed by improve(), as long as the budget lasts; keeps the shortest order.
  void explore(SearchBudget& budget, std::uint64_t seed);

  static constexpr int kWindow = 14;  // nodes
  static constexpr int kBeam = 10;    // orders of a window that are followed at a time

 private:
  bool done(const SearchBudget& budget) const { return budget.spent() || makespan_ <= bound_; }
  // A state of the simulator at one position, and how much later than it says that comes by now.
  struct Checkpoint {
    analysis::Simulator state;
    std::int64_t shift = 0;  // ps
  };
  bool has_checkpoint(analysis::Position position) const { return position.index % stride_ == 0; }
  Checkpoint& checkpoint(analysis::Position position) { return checkpoints_[position.index / stride_]; }
  analysis::Position checkpoint_before(analysis::Position position) const {
    return position - position.index % stride_;
  }
  // The makespan with `nodes` at positions lo, lo + 1, ...; the present one if it is seen to be no shorter.
  analysis::Time evaluate(analysis::Position lo, std::span<const analysis::NodeId> nodes,
                          SearchBudget& budget);
  bool fits(analysis::Position lo, std::span<const analysis::NodeId> nodes) {
    return analysis::total(live_.peaks_with(lo, nodes)) <= limit_;
  }
  void apply(analysis::Position lo, std::span<const analysis::NodeId> nodes);
  // apply() if that fits and is shorter.
  bool attempt(analysis::Position lo, std::span<const analysis::NodeId> nodes, SearchBudget& budget);
  // The node at position `from` goes to position `to`, with what has to come along. Empty if nothing would
  // change.
  std::vector<analysis::NodeId> raised(analysis::Position from, analysis::Position to);
  std::vector<analysis::NodeId> sunk(analysis::Position from, analysis::Position to);
  bool relocate(analysis::Position position, SearchBudget& budget);
  bool sweep(SearchBudget& budget, bool everywhere);
  bool window(analysis::Position lo, SearchBudget& budget);
  // Simulates up to the first position, at or after `hi`, at which the states agree: from there on only the
  // time has changed.
  void simulate_from(analysis::Position lo, analysis::Position hi);

  const analysis::Problem& p_;
  std::int64_t limit_;
  analysis::Time bound_;
  int stride_;
  analysis::LiveOrder live_;
  analysis::Time makespan_;
  analysis::IdVector<analysis::Position, std::int64_t> blocked_;  // ps
  analysis::IdVector<int, Checkpoint> checkpoints_;               // before positions 0, stride, 2 stride, ...
  analysis::OrderTails tails_;
  // The starts of each channel in the order for which tails_ was computed.
  analysis::IdVector<analysis::ChannelId, std::vector<std::pair<analysis::Position, analysis::CollectiveId>>>
      starts_;
  analysis::IdVector<analysis::NodeId, int> mark_;
  int marks_ = 0;
};

}  // namespace braid::passes
