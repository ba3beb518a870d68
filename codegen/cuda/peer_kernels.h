// Collectives that run as kernels of our own, which read peers' memory (runtime/device/peer_collectives.h).
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/memory.h"

namespace braid::codegen::cuda {

// User error: a kernel for a collective that there is not, or that cannot reach the operands.
inline constexpr int kNoSuchKernel = 645;

// A one_shot or two_shot that there is; all else is NCCL's (or refused).
bool is_peer_kernel(const ir::CollectiveKernel& k);

// User error 645: an operand is not where peers can read it, or overlaps the result without being it.
void check_peer_kernel(const ir::Graph& graph, ir::OpId id);

// The launches on the communication stream, one per operand, as lines of the step function. `group`: index in
// the program's table.
std::vector<std::string> peer_kernel_launches(const ir::Graph& graph, const MemoryMap& memory,
                                              const ir::CollectiveKernel& k, int group);

}  // namespace braid::codegen::cuda
