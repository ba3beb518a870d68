// How much the interpreter has to do.
#pragma once

#include "ir/graph.h"

namespace braid::ir {

// The iterations of all loops, products, windows and attentions and the elements of all buffers, at the upper bounds of the dimensions. At
// least what it takes, but for regions, which may run often, and kernels of plug-ins.
double iterations_at_most(const Graph& graph);

}  // namespace braid::ir
