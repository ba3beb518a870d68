// Which inputs of a program are indices, and their limits.
#pragma once

#include <optional>
#include <vector>

#include "ir/schedule.h"

namespace braid::codegen {

// Per graph input, the size that its non-negative elements must stay below, because the program uses them as
// an index unchanged (copied, moved, cast, or after wrapping negative ones from the end) or as lengths of sequences. The smallest of
// several sizes; for a varying size, its lower bound. Of a table of which ranks have rows, the size of the whole. nullopt if the input is not
// an index or is computed with first. O(instructions of the graph).
std::vector<std::optional<ir::Expr>> index_limits(const ir::Schedule& schedule);

}  // namespace braid::codegen
