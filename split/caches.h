// What of a model is a cache of keys and values: what a step returns and the next step is given.
#pragma once

#include <vector>

#include "split/graph.h"

namespace braid::split {

struct Cache {
  int input = -1;   // value; -1: this graph begins it, as prefill does
  int output = -1;  // index in Graph::outputs
};

// Found by structure, not by names. With a past: an output of three or more dimensions that is computed from an input of the
// same type and rank by nothing but joins (Concat), writes (TensorScatter, ScatterND, ScatterElements, Where) and what attention
// does to its caches. Begun here: an output of three or more dimensions that attention reads as its keys or values or returns as
// such, attention being an operator or two products with Softmax between them. An input or output is in one cache at most.
std::vector<Cache> caches_of(const Graph& graph);

}  // namespace braid::split
