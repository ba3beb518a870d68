// Releases as early as dependencies allow.
//
//   decided   wait a  mm  mm  start b  release a
//   early     wait a  release a  mm  mm  start b
//
// On the simulated machine a release takes no time and frees the memory that it holds, so an order in which it
// stands further down than necessary needs more memory and gains nothing. Passes that build orders need not think
// about releases; this puts them where they belong. (If ranks should wait for the slowest one as late as possible,
// sink_releases comes last.)
#pragma once

#include <span>
#include <vector>

#include "analysis/problem.h"

namespace braid::passes {

// The same order, but each node that only releases comes as soon as everything it depends on has run. Neither
// makespan nor live bytes at any other node grow. A release that costs time (a cost file prices its call) stays.
// O(nodes + dependencies).
analysis::Order with_early_releases(const analysis::Problem& problem, analysis::OrderView order);

// Whether the node does nothing but release.
bool only_releases(const analysis::Problem& problem, analysis::NodeId node);

}  // namespace braid::passes
