// Finds key/value caches: outputs of one step that are inputs of the next.
#pragma once

#include <vector>

#include "split/graph.h"

namespace braid::split {

struct Cache {
  ValueId input;    // invalid: this graph begins it, as prefill does
  int output = -1;  // index in Graph::outputs
};

// Finds caches by structure, not by names. A cache with a past: an output of three or more dimensions that is
// computed from an input of the same type and rank by nothing but joins (Concat), writes (TensorScatter,
// ScatterND, ScatterElements, Where) and the operations of attention on its caches. A cache that begins here:
// an output of three or more dimensions that attention reads as its keys or values or returns as such;
// attention is an operator, or two products with Softmax between them. An input or output is in at most one
// cache.
std::vector<Cache> caches_of(const Graph& graph);

}  // namespace braid::split
