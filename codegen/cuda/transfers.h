// Which sends and receives are issued together, and where.
//
// The communication stream runs one call group after the other, and a group ends when its last transfer does.
// The transfers of a group progress together, in any order. So
//   - a transfer that needs another one, by its data or because they share memory, is in a later group;
//   - a send and its receive are in one group: otherwise the groups of two ranks may wait for each other in a
//     circle, although every transfer could complete;
//   - groups are as large as that allows, because every group costs a start: kernels between the members
//     that need none of them (the copy of the next operand) do not end a group.
#pragma once

#include <vector>

#include "codegen/cuda/memory.h"

namespace braid::codegen::cuda {

// Gives every transfer its group (Unit::transfers) and makes the members of a group adjacent. A transfer
// whose partner comes later moves back to it, as far as nothing before needs it. Other units keep their
// order.
std::vector<Unit> group_transfers(const ir::Graph& graph, const std::vector<Unit>& units,
                                  const MemoryMap& memory);

}  // namespace braid::codegen::cuda
