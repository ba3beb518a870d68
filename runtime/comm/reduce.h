// Elementwise reduction over the buffers of several ranks: the inner loops of the CPU engines.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/comm/communicator.h"

namespace braid::rt {

// For every i < count: r = op over sources in order of source[i]; every destination[i] = r. A destination may
// equal a source, but must not partially overlap one. No alignment is needed. `streaming` bypasses the
// caches, for results larger than them.
void reduce(DType dtype, ReduceOp op, std::span<const void* const> sources,
            std::span<void* const> destinations, size_t count, bool streaming);

// False for unsupported combinations (avg of bool).
bool reducible(DType dtype, ReduceOp op);

}  // namespace braid::rt
