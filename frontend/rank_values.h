// Integers that differ between the ranks of one program, as expressions over the rank's coordinates.
#pragma once

#include <functional>
#include <optional>

#include "frontend/value.h"

namespace braid::frontend {

// Returns the progression value(r, k), k < `count`, on rank r of the graph; nullopt if it is none. A graph
// without a mesh gets one of a single axis, kWorldAxis, as soon as it needs a coordinate.
std::optional<Progression> progression_of_ranks(
    ir::Graph& graph, std::int64_t count, const std::function<std::int64_t(int rank, std::int64_t k)>& value);

// Sets `elements` (one element) or `progression` of a constant of integers with one entry per rank, if these
// follow from the coordinates of the rank.
void follow_rank(Value& value, ir::Graph& graph);

}  // namespace braid::frontend
