// Kernels for fused nodes.
#pragma once

#include <cstdint>
#include <span>

#include "codegen/cuda/kernel.h"
#include "ir/fused_loops.h"

namespace braid::codegen::cuda {

// A fused node in one kernel: one block per outer point executes the members in order; values between them
// are in registers or in rows of shared memory. If no member has inner dimensions, one thread executes an
// outer point. `local` are the buffers that are not read outside the node. If the rows may need more than
// `portable_shared_bytes`, there is also a variant with rows in the workspace.
Launch fused_kernel(const ir::Graph& graph, const ir::FusedLoops& fused, std::span<const ir::BufferId> local,
                    std::int64_t portable_shared_bytes);
// The shared memory for the rows at the upper bounds of the dimensions.
std::int64_t fused_shared_bytes(const ir::Graph& graph, const ir::FusedLoops& fused);

}  // namespace braid::codegen::cuda
