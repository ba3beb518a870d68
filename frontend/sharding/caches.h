// Pairs of a graph input and a graph output that are the past and the present of a cache: what a step returns and the next
// step is given.
#pragma once

#include <vector>

#include "frontend/sharding/graph.h"

namespace braid::frontend::sharding {

struct CachePair {
  int input = -1;   // value
  int output = -1;  // index in Graph::outputs
};

// Found by structure, not by names: an output of three or more dimensions that is computed from an input of the same type and
// rank by nothing but joins (Concat), writes (TensorScatter, ScatterND, ScatterElements, Where) and what attention does to its
// caches. An input or output is in one pair at most.
std::vector<CachePair> cache_pairs(const Graph& graph);

}  // namespace braid::frontend::sharding
