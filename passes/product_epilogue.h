// A loop that reads the result of a product, as the rest of the product's epilogue.
#pragma once

#include <optional>

#include "ir/graph.h"

namespace braid::passes {

struct WithEpilogue {
  ir::TensorRef out;
  ir::LoopBody epilogue;
};

// Returns the product with the pointwise loop, which stores to `target`, as its epilogue. Returns nullopt if
// the loop does not visit each element of the result once and at its own index, or if the product would write
// what it reads.
std::optional<WithEpilogue> with_epilogue(const ir::Graph& graph, const ir::Product& product,
                                          const ir::Loops& loops, ir::BufferId target);

}  // namespace braid::passes
