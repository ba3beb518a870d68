// Finds how much of a collective is not covered by compute, by a walk from its start; for passes that move
// one node at a time.
#pragma once

#include "analysis/live_order.h"
#include "analysis/problem.h"

namespace braid::analysis {

// Time of the collective less the compute between its start and the first node that makes it complete: its
// wait, the wait of a later collective on the same channel (which completes after it), or a blocking
// collective. Negative: covered with room to spare. Contention is left out.
Time walk_exposure(const Problem& problem, const LiveOrder& order, CollectiveId collective);

}  // namespace braid::analysis
