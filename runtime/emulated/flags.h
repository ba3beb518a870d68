// Flags in device memory with which kernels of different ranks wait for each other: 0 is down, 1 is up. The
// thread that lowers a flag follows, in the checker's sense, everything done before by the block that raised
// it.
#pragma once

#include <cstdint>

namespace braid::emulated {

// From within a kernel; kernel.h declares raise_flag and lower_flag.

// The number of changes of any flag so far.
uint64_t flag_changes();
// Waits until there are more changes than `seen`, or for a moment.
void await_flag_change(uint64_t seen);

}  // namespace braid::emulated
