// The addresses of all emulated devices, reserved once: memory is taken when it is touched.
#pragma once

#include <cstddef>
#include <cstdint>

namespace braid::emulated {

constexpr size_t kPageBytes = 4096;
constexpr size_t kRegionBytes = size_t{256} << 30;        // of the devices' memory
constexpr size_t kSharedRegionBytes = size_t{128} << 30;  // of the shared memory of blocks

struct Addresses {
  uintptr_t device;  // a multiple of kRegionAlignment
  uintptr_t shared;
  void* written;      // a bit per byte of the devices' memory
  void* page_owners;  // 32 bits per page
};
constexpr size_t kRegionAlignment = size_t{2} << 20;  // what cuMemGetAllocationGranularity recommends

// Null if this process may not have so many (ulimit -v), which standard error then says once.
const Addresses* addresses();

}  // namespace braid::emulated
