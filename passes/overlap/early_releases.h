// Releases as early as dependencies allow.
//
//   decided   wait a  mm  mm  start b  release a
//   early     wait a  release a  mm  mm  start b
//
// On the simulated machine a release takes no time and frees the memory that it holds. An order that places
// it later than necessary needs more memory and gains nothing. Passes that build orders need not consider
// releases; with_early_releases() places them. (If ranks should wait for the slowest one as late as possible,
// sink_releases comes last.)
#pragma once

#include <span>
#include <vector>

#include "analysis/problem.h"

namespace braid::passes {

// Returns the same order with each node that only releases placed right after its last dependency. Neither
// makespan nor live bytes at any other node grow. A release that costs time (a cost file prices its call)
// stays. O(nodes + dependencies).
analysis::Order with_early_releases(const analysis::Problem& problem, analysis::OrderView order);

// Whether the node does nothing but release.
bool only_releases(const analysis::Problem& problem, analysis::NodeId node);

}  // namespace braid::passes
