// Accesses of kernels that the compiler does not see, because the library makes them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/emulated/access_set.h"

// The return address of a function that the kernel calls, which tells its instructions apart.
#define BRAID_CALLER reinterpret_cast<uintptr_t>(__builtin_return_address(0))

namespace braid::emulated {

// Observes an access by the running thread as the compiler's hooks do. It is not made.
void observe_access(uintptr_t code, const void* pointer, size_t size, AccessKind kind);

// Gives the kernel up unless the address is in shared memory.
void require_shared(const char* what, const void* pointer);

}  // namespace braid::emulated
