// Longest chains before and after everything, and which compute work is neither before nor after a
// collective: what lower bounds are made of.
#pragma once

#include "analysis/problem.h"

namespace braid::analysis {

// Per step and per collective: the longest chain before it begins and after it has ended.
struct HeadsAndTails {
  IdVector<StepId, Time> step_head, step_tail;
  IdVector<CollectiveId, Time> collective_head, collective_tail;
  Time critical_path;
};
struct ChainOptions {
  bool channel_order = true;  // collectives issued in a fixed order on one channel run one after the other
  bool floors = false;        // collectives take their floor; of several tensors, that of the smallest
};
HeadsAndTails heads_and_tails(const Problem& problem, const ChainOptions& options = {});
// The work that can run concurrently, by the dependencies alone.
struct Beside {
  // Per collective: how much of its work, at most, can overlap compute; all other compute work is before or
  // after it.
  IdVector<CollectiveId, Time> most_hidden;
  // Per step: it computes, and some collective is neither before nor after it.
  IdVector<StepId, char> with_any;
};
Beside what_runs_beside(const Problem& problem);

}  // namespace braid::analysis
