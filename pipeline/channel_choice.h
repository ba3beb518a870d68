// Chooses among searched orders under the program's channels. In the search's model transfers may overtake
// each other; in queues they may not: a message behind another one, or in a queue shared with messages to
// other ranks, arrives later.
//
//   every candidate -> SEND and RECV placed by its times, by turns, and by turns with its idle cells -> proof
//   -> weighted simulation; the one that ends first is improved by exchanging neighbours in its ranks'
//   orders, each exchange simulated, until none helps or the budget is spent
#pragma once

#include <span>
#include <string>
#include <vector>

#include "pipeline/costs.h"
#include "pipeline/deadlock_proof.h"
#include "pipeline/queue_policy.h"
#include "pipeline/search_problem.h"

namespace braid::pipeline {

struct ChannelCandidate {
  std::string name;
  Orders orders;               // accepted by evaluate()
  PipelineSchedule published;  // the same with idle cells, if it has any; otherwise empty
};

struct ChannelChoice {
  int candidate = 0;  // index of the best one, from which the improvement started
  Orders orders;
  PipelineSchedule lowered;  // with SEND and RECV
  PassingOrder certificate;  // proves that it completes under these channels for any timing
  analysis::Time simulated;
  analysis::Time first_candidate;  // time of the first candidate under these channels
  int improvements = 0;
  std::int64_t simulations = 0;
};

// Stops early if a candidate reaches `lower_bound`. `budget` counts simulations beyond those of the
// candidates.
ChannelChoice choose_for_channels(const SearchProblem& problem, const PipelineCosts& costs,
                                  QueuePolicy policy, std::span<const ChannelCandidate> candidates,
                                  analysis::Time lower_bound, std::int64_t budget);

}  // namespace braid::pipeline
