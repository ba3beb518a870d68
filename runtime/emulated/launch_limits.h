// Launches that a GPU refuses.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/emulated/vector_types.h"

namespace braid::emulated {

constexpr unsigned kMaxThreadsPerBlock = 1024;
constexpr unsigned kMaxBlockZ = 64;
constexpr unsigned kMaxGridX = 0x7fffffff, kMaxGridYZ = 65535;

// Returns the error of a launch, or an empty string. `dynamic_limit`: bytes of dynamic shared memory that the
// kernel may have.
std::string launch_error(dim3 grid, dim3 block, size_t dynamic_bytes, size_t dynamic_limit);

}  // namespace braid::emulated
