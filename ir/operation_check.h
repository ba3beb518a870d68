// The rules for types, sizes and counts of operations, for parser and verifier.
#pragma once

#include <optional>

#include "ir/typing.h"

namespace braid::ir {

// Checks one operation. Sizes are wrong only if they provably differ.
std::optional<TypeError> check_operation(const Graph& graph, OpId op);

}  // namespace braid::ir
