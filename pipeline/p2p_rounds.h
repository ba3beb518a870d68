// Rounds in which ranks set up the connections that a schedule uses: no rank is in two connections of a
// round, so that all connections of a round are made at once and no order of ranks can block.
#pragma once

#include <compare>
#include <vector>

#include "pipeline/schedule.h"

namespace braid::pipeline {

struct P2pConnection {
  int from = 0, to = 0;

  friend auto operator<=>(const P2pConnection&, const P2pConnection&) = default;
};

// One connection per ordered pair of ranks with neighbouring stages; none from a rank to itself. Pairs of
// ranks, ascending, go each into the first round in which both are free; a round then becomes two, upwards
// and downwards. Without `backward` only activations flow.
std::vector<std::vector<P2pConnection>> p2p_rounds(const std::vector<std::int32_t>& rank_of_stage,
                                                   bool backward = true);

}  // namespace braid::pipeline
