// Functional collectives whose result may have the bytes of the operand.
//
//   %r = all_reduce sum @world (%x) as ar      %x and %r are two buffers for whoever reads the text, and have
//                                              one place in the plan if nobody wants %x after this
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ir/schedule.h"

namespace braid::ir {

// Root storages of the operand and of the result with the same number.
struct InPlaceCollective {
  OpId start;
  StorageId operand, result;
  std::int64_t bytes = 0;  // of each, at upper bounds
};

// Those for which it is right in every legal order of the nodes:
//   - all_reduce and broadcast, not by `one_shot`, which reads peers' operands until the last result stands;
//   - operand and result are whole storages of the segment, of equal size;
//   - other nodes that touch the operand write it and come before the start (so no legal order has them
//     later), and no output is made of it;
//   - nobody but the start and its wait writes the result (so nobody reads it before the start either).
// What shares bytes is held until the release, as every operand is.
std::vector<InPlaceCollective> in_place_collectives(const Schedule& schedule);

// What holds a run to its plan sees these as one tenant: results that the plan puts where their operand is,
// for the same life. By result: the operand.
std::map<StorageId, StorageId> shared_places(const Schedule& schedule);

}  // namespace braid::ir
