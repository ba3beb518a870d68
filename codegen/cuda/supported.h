// Checks that the CUDA target supports a schedule.
#pragma once

#include <optional>
#include <vector>

#include "codegen/cuda/memory.h"
#include "ir/schedule.h"

namespace braid::codegen::cuda {

// A send blocks the stream of its rank until the receive has begun. If a collective that needs the sender
// comes before the receive on the receiver's stream, neither ever completes.
struct PartedTransfer {
  ir::OpId send, between, receive;
};
std::optional<PartedTransfer> parted_transfer(const ir::Schedule& schedule);

// Throws user errors 640 to 642 and 645.
void check_supported(const ir::Schedule& schedule, const std::vector<Unit>& units);

}  // namespace braid::codegen::cuda
