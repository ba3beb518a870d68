// Which elements of the inputs an element of a result is computed from, by the index expressions of the
// lowered loops.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace braid::frontend::sharding {

// A set of marks, one bit each. An element has the marks of all elements that it is computed from.
using Marks = std::uint32_t;

struct TraceResult {
  std::map<std::string, std::vector<Marks>> outputs;  // by name, row-major
  std::string opaque;  // an operation whose operands are not followed; "": all are
};

// Follows the marks of the graph's inputs (by name, row-major; 0 where nothing is given) to its outputs. All
// sizes must be constant. Masks and indices that only depend on places are evaluated; an index that depends
// on data stands for all that its check allows.
TraceResult trace(const ir::Graph& graph, const std::map<std::string, std::vector<Marks>>& inputs);

}  // namespace braid::frontend::sharding
