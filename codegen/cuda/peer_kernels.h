// Collectives that run as our own kernels, which read peers' memory (runtime/device/peer_collectives.h).
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/memory.h"

namespace braid::codegen::cuda {

// User error: a kernel for a collective that does not exist or cannot reach the operands.

// True for a supported one_shot or two_shot; everything else is left to NCCL or refused.
bool is_peer_kernel(const ir::CollectiveKernel& k);

// User error 645: peers cannot read an operand, or it partly overlaps the result.
void check_peer_kernel(const ir::Graph& graph, ir::OpId id);

// The launches on the communication stream, one per operand, as lines of the step function. `group` is the
// index in the program's table.
std::vector<std::string> peer_kernel_launches(const ir::Graph& graph, const MemoryMap& memory,
                                              const ir::CollectiveKernel& k, int group);

}  // namespace braid::codegen::cuda
