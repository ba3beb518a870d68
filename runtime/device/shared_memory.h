// Shared memory of a block.
//
//   BRAID_SHARED(float, tile, 256);        // a float[256], one per block
//   BRAID_DYNAMIC_SHARED(float, rows);     // a float* to the bytes given at the launch
//
// Both start undefined in every block.
#pragma once

#include <cstdint>

#ifdef BRAID_EMULATED_DEVICE
#define BRAID_SHARED(T, name, n)     \
  static const char name##_site = 0; \
  T(&name)                           \
  [n] = *static_cast<T(*)[n]>(       \
      ::braid::emulated::static_shared(&name##_site, #name, sizeof(T) * (n), alignof(T)))
#define BRAID_DYNAMIC_SHARED(T, name) T* name = static_cast<T*>(::braid::emulated::dynamic_shared())
#else
#define BRAID_SHARED(T, name, n) __shared__ T name[n]
#define BRAID_DYNAMIC_SHARED(T, name)                                   \
  extern __shared__ __align__(16) unsigned char braid_dynamic_shared[]; \
  T* name = reinterpret_cast<T*>(braid_dynamic_shared)
#endif

namespace braid::rt::device {

#ifndef BRAID_EMULATED_DEVICE
// The address of shared memory as its instructions take it.
__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}
#endif

// Returns the block's rows of `bytes` bytes: in dynamic shared memory, or in the block's part of `spilled`.
template <bool in_shared>
__device__ inline unsigned char* block_rows(unsigned char* spilled, int64_t bytes) {
  if constexpr (in_shared) {
    BRAID_DYNAMIC_SHARED(unsigned char, shared);
    return shared;
  } else {
    return spilled + blockIdx.x * bytes;
  }
}

}  // namespace braid::rt::device
