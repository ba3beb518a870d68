// Which inputs of a program are indices, and of what.
#pragma once

#include <optional>
#include <vector>

#include "ir/schedule.h"

namespace braid::codegen {

// Per graph input: a size that its elements must stay below when they are not negative, because the program
// looks something up with them as they are (copied, moved, cast, or after a negative one has been counted
// from the end). Of several sizes the smallest; of sizes that vary their lower bound counts. Nothing for an
// input that is no index, or one that is computed with first. O(instructions of the graph).
std::vector<std::optional<ir::Expr>> index_limits(const ir::Schedule& schedule);

}  // namespace braid::codegen
