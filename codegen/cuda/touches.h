// The memory that a unit of execution touches, and the order of two units that follows from it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/cuda/memory.h"
#include "ir/effects.h"

namespace braid::codegen::cuda {

struct Touch {
  ir::Access access;
  std::optional<MemoryMap::Place> place;
};

// Without values inside of a fused node, which have no memory.
std::vector<Touch> touches_of(const ir::Graph& graph, const Unit& unit, const MemoryMap& memory);

enum class Conflict : std::uint8_t { none, overwrites_read, other };

// Returns the conflict of a unit with an earlier one: the strongest over all pairs of touches of the same
// bytes, possibly as different storages with one place in the plan.
Conflict conflict(const ir::Graph& graph, const std::vector<Touch>& later, const std::vector<Touch>& earlier);

}  // namespace braid::codegen::cuda
