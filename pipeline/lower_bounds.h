// Lower bounds on the makespan of a whole problem and of every completion of a partial schedule.
//
//   rank work       first arrival + all work of a rank + what must follow its last action
//   critical path   one micro-batch's path down and up, with the work that must precede and follow on each
//                   rank
//   one machine     per rank: every remaining action has a release time (head) and a time that must follow it
//                   (tail); Jackson's preemptive schedule (largest tail first) bounds every order (Carlier
//                   1982), in O(n) here since heads rise and tails fall with the micro-batch number
//   memory          heads and tails account for the I and W that must precede the k-th F, hence for the round
//                   trips under a cap of c activations in flight
#pragma once

#include <algorithm>

#include "pipeline/search_state.h"

namespace braid::pipeline {

struct RootBounds {
  analysis::Time rank_work, critical_path, one_machine;
  analysis::Time best() const { return std::max({rank_work, critical_path, one_machine}); }
};

class LowerBounds {
 public:
  explicit LowerBounds(const SearchInstance& in);

  struct Value {
    std::int64_t bound = 0;  // max over ranks
    std::int64_t sum = 0;    // over ranks: breaks ties of the maximum
  };
  // O(stages x microbatches). Raises times of idle ranks to their next action's head: a normal form that
  // changes no completion and lets dominance prune more.
  Value of(const SearchState& st);

  RootBounds root();

 private:
  void fill_heads(const SearchState& st);
  std::int64_t one_machine(const SearchState& st, int rank) const;

  const SearchInstance& in_;
  IdVector<StageMicrobatch, std::int64_t> head_[3];  // by kind
};

}  // namespace braid::pipeline
