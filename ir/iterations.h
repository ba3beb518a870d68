// How much the interpreter has to do.
#pragma once

#include "ir/graph.h"

namespace braid::ir {

// Returns an upper bound on the iterations of all loops, products, windows, attentions and recurrent layers
// plus the elements of all buffers, at the upper bounds of the dimensions. Exceptions: regions, which may run
// often, count once, and kernels of plug-ins count 0.
double iterations_at_most(const Graph& graph);

}  // namespace braid::ir
