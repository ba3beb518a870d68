// Flags in device memory by which kernels of different ranks wait for each other: 0 is down, 1 is up. Who
// lowers a flag follows, in the checker's sense, all that the block that raised it had done.
#pragma once

#include <cstdint>

namespace braid::emulated {

// From within a kernel; kernel.h declares raise_flag and lower_flag.

// Changes of any flag so far.
uint64_t flag_changes();
// Until there is another one than `seen`, or for a moment.
void await_flag_change(uint64_t seen);

}  // namespace braid::emulated
