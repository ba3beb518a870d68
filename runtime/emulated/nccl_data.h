// What collectives do to bytes, once all ranks have come.
#pragma once

#include <vector>

#include "runtime/emulated/nccl_comm.h"

namespace braid::emulated {

// Moves and reduces the data of all ranks' calls, which agree. Reductions go in rank order, so all ranks get
// the same bits; float16 and bfloat16 are summed in float32 and rounded once.
void move_data(const std::vector<CollectiveCall>& calls);

// Whether `move_data` can reduce the type.
bool reducible(ncclDataType_t type);

}  // namespace braid::emulated
