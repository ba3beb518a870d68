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

#include "analysis/live_bytes.h"
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

  void set(std::vector<int> order);
  const std::vector<int>& order() const { return order_; }
  analysis::Time makespan() const { return makespan_; }

  // All moves, over and over, until none gains anything or the budget is spent. True if the order changed.
  bool improve(SearchBudget& budget);
  // Random legal moves followed by improve(), as long as the budget lasts; keeps the shortest order.
  void explore(SearchBudget& budget, std::uint64_t seed);

  static constexpr int kWindow = 14;  // nodes
  static constexpr int kBeam = 10;    // orders of a window that are followed at a time

 private:
  bool done(const SearchBudget& budget) const { return budget.spent() || makespan_ <= bound_; }
  std::size_t checkpoint_before(int position) const;
  // The makespan with `nodes` at positions lo, lo + 1, ...; the present one if it is seen to be no shorter.
  analysis::Time evaluate(int lo, std::span<const int> nodes, SearchBudget& budget);
  bool fits(int lo, std::span<const int> nodes);
  void apply(int lo, std::span<const int> nodes);
  // apply() if that fits and is shorter.
  bool attempt(int lo, std::span<const int> nodes, SearchBudget& budget);
  // The node at position `from` goes to position `to`, with what has to come along. Empty if nothing would
  // change.
  std::vector<int> raised(int from, int to);
  std::vector<int> sunk(int from, int to);
  bool relocate(int position, SearchBudget& budget);
  bool sweep(SearchBudget& budget, bool everywhere);
  bool window(int lo, SearchBudget& budget);
  void simulate_from(int position);

  const analysis::Problem& p_;
  const analysis::LiveBytes* live_;
  std::int64_t limit_;
  analysis::Time bound_;
  int stride_;
  std::vector<int> order_, position_;
  analysis::Time makespan_;
  std::vector<std::int64_t> blocked_;             // ps, per position
  std::vector<analysis::Simulator> checkpoints_;  // before positions 0, stride, 2 stride, ...
  std::vector<std::int64_t> shift_;               // ps to add to the time of a checkpoint
  analysis::OrderTails tails_;
  std::vector<std::vector<std::pair<int, int>>> starts_;  // per channel: (position, collective), as of tails_
  std::vector<int> mark_;
  int marks_ = 0;
  // Memory.
  analysis::SpaceBytes peaks_{};
  std::vector<analysis::SpaceBytes> alive_;    // before each position
  std::vector<int> first_touch_, last_touch_;  // positions, per tenant
  std::vector<int> touches_, touches_seen_;    // scratch, per tenant
};

}  // namespace braid::passes
