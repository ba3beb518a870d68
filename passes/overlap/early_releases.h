// Releases as early as dependencies allow.
//
//   decided   wait a  mm  mm  start b  release a
//   early     wait a  release a  mm  mm  start b
//
// On the simulated machine a release takes no time, and the memory that it holds goes with it: so an order in
// which it stands further down than it must is worse in memory and better in nothing. Those who build orders
// do not think about releases; this puts them where they belong. (Where ranks should wait for the slowest one
// as late as possible, sink_releases comes last.)
#pragma once

#include <span>
#include <vector>

#include "analysis/problem.h"

namespace braid::passes {

// The same order, but each node that only releases comes as soon as all that it depends on has run. Neither
// makespan nor live bytes grow at any other node. A release that costs time (a cost file prices its call)
// stays where it is. O(nodes + dependencies).
analysis::Order with_early_releases(const analysis::Problem& problem, analysis::OrderView order);

// Does the node do nothing but release?
bool only_releases(const analysis::Problem& problem, analysis::NodeId node);

}  // namespace braid::passes
