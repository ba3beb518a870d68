// Moves the data of collectives once all ranks have arrived.
#pragma once

#include <vector>

#include "runtime/emulated/nccl_comm.h"

namespace braid::emulated {

// Moves and reduces the data of all ranks' calls, which must agree. Reductions are in rank order, so all
// ranks get the same bits; float16 and bfloat16 are summed in float32 and rounded once. Ranks without `recv`,
// which are in another process, receive nothing.
void move_data(const std::vector<CollectiveCall>& calls);

// Whether `move_data` can reduce the type.
bool reducible(ncclDataType_t type);

}  // namespace braid::emulated
