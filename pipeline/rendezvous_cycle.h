// What holds up an execution that could not end (rendezvous.h).
#pragma once

#include <vector>

#include "pipeline/rendezvous.h"

namespace braid::pipeline {

// The shortest cycle among what stands at the front of each queue and where each rank stands in its row.
std::vector<BlockedAction> shortest_cycle(const Schedule& schedule, const ChannelLayout& layout,
                                          ChannelPolicy policy, const Rendezvous& stuck);

}  // namespace braid::pipeline
