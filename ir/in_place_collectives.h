// Functional collectives whose result may occupy the bytes of its operand.
//
//   %r = all_reduce sum @world (%x) as ar      %x and %r are two buffers in the text, but have one place in
//                                              the plan if nothing reads %x afterwards
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ir/schedule.h"

namespace braid::ir {

// The root storages of one operand and of the result at the same position.
struct InPlaceCollective {
  OpId start;
  StorageId operand, result;
  std::int64_t bytes = 0;  // of each, at upper bounds
};

// Finds those for which sharing is correct in every legal order of the nodes:
//   - the collective is an all_reduce or broadcast whose algorithm is not `one_shot`, which reads peers'
//     operands until the last result is complete;
//   - operand and result are whole storages of the segment, of equal size;
//   - all other nodes that touch the operand write it and come before the start (so they do in every legal
//     order), and it is not a graph output;
//   - only the start and its wait write the result (so nothing reads it before the start either).
// Shared bytes are held until the release, like every operand.
std::vector<InPlaceCollective> in_place_collectives(const Schedule& schedule);

// Results that the plan places on their operand with the same lifetime, mapped to that operand. PlanWatch
// treats each such pair as one tenant.
std::map<StorageId, StorageId> shared_places(const Schedule& schedule);

}  // namespace braid::ir
