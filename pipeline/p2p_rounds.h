// Rounds in which ranks set up the connections of a schedule. No rank is in two connections of a round, so
// all connections of a round can be made at once and no order of ranks can block.
#pragma once

#include <compare>
#include <vector>

#include "pipeline/schedule.h"

namespace braid::pipeline {

struct P2pConnection {
  int from = 0, to = 0;

  friend auto operator<=>(const P2pConnection&, const P2pConnection&) = default;
};

// One connection per ordered pair of distinct ranks with neighbouring stages. Each pair of ranks, in
// ascending order, goes into the first round in which both are free; each round is then split into an upward
// and a downward one. Without `backward` only activations flow.
std::vector<std::vector<P2pConnection>> p2p_rounds(const RankOfStage& rank_of_stage, bool backward = true);

}  // namespace braid::pipeline
