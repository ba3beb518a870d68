// Which inputs of a program are indices, and their limits.
#pragma once

#include <optional>
#include <vector>

#include "ir/schedule.h"

namespace braid::codegen {

// Returns, per graph input, the size that its non-negative elements must stay below because the program uses
// them as an index or as lengths of sequences. Indices are used unchanged: copied, moved, cast, or after
// wrapping negative ones from the end. The smallest of several sizes counts; for a varying size, its lower
// bound; for a table whose rows are divided among ranks, the size of the whole table. nullopt if the input is
// no index or takes part in arithmetic first. O(instructions of the graph).
std::vector<std::optional<ir::Expr>> index_limits(const ir::Schedule& schedule);

}  // namespace braid::codegen
