// Searched orders under the program's channels. The model of the search lets transfers pass each other
// freely; queues do not: a message that follows another on its way, or shares a queue with messages to other
// ranks, comes later.
//
//   every candidate -> SEND and RECV placed by its times, by turns, and by turns with its idle cells -> proof
//   -> weighted simulation; the one that ends first is improved by exchanges of neighbours in its ranks'
//   orders, each simulated, until none helps or the budget ends
#pragma once

#include <span>
#include <string>
#include <vector>

#include "pipeline/channels.h"
#include "pipeline/costs.h"
#include "pipeline/deadlock_proof.h"
#include "pipeline/search_problem.h"

namespace braid::pipeline {

struct ChannelCandidate {
  std::string name;
  Orders orders;       // such that evaluate() accepts them
  Schedule published;  // the same with idle cells, where it is known with them; or empty
};

struct ChannelChoice {
  int candidate = 0;  // which was the best, and the first of the improved ones
  Orders orders;
  Schedule lowered;         // with SEND and RECV
  Certificate certificate;  // that it ends under these channels, whatever the timing
  analysis::Time simulated;
  analysis::Time first_candidate;  // what the first candidate takes under these channels
  int improvements = 0;
  std::int64_t simulations = 0;
};

// Stops early when a candidate reaches `lower_bound`. `budget` counts simulations beyond those of the
// candidates.
ChannelChoice choose_for_channels(const SearchProblem& problem, const PipelineCosts& costs,
                                  ChannelPolicy policy, std::span<const ChannelCandidate> candidates,
                                  analysis::Time lower_bound, std::int64_t budget);

}  // namespace braid::pipeline
