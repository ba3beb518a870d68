// Memory outside of the device that the running thread of a kernel may touch: its own stack, the launch's
// parameters, the variables that threadIdx and the like are read from, and constants of the program, for
// which nvcc has instructions or constant memory. All other memory is the host's, and a GPU fails when it
// accesses it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/emulated/access_set.h"
#include "runtime/emulated/program_image.h"

namespace braid::emulated {

class KernelMemory {
 public:
  AddressRange stack, built_in, parameters;

  // Call once on the host thread whose kernels it is for.
  KernelMemory();

  bool holds(uintptr_t address, size_t size, AccessKind kind) {
    if (kind != AccessKind::kRead) return stack.holds(address, size) || scope_.holds(address, size);
    return built_in.holds(address, size) || thread_.holds(address, size) || stack.holds(address, size) ||
           parameters.holds(address, size) || constants_.holds(address, size) ||
           holds_constant(address, size);
  }

  // A call at this address of the stack would leave too little of it for the hooks.
  bool overflows(uintptr_t stack_pointer) const { return stack_pointer - stack.begin < kStackMargin; }

 private:
  static constexpr size_t kStackMargin = 12 * 1024;

  bool holds_constant(uintptr_t address, size_t size);

  AddressRange thread_, scope_;  // current_kernel_thread, atomic_scope
  AddressRange constants_;       // the segment of the latest read
};

// The one of the kernel that runs on this host thread; null outside kernels.
extern __thread KernelMemory* current_memory __attribute__((tls_model("initial-exec")));

// The running thread has touched what it may not: gives the kernel up.
[[noreturn]] void fail_host_access(uintptr_t address, size_t size, AccessKind kind);
[[noreturn]] void fail_stack_overflow();

// Addresses below are a null pointer's, with an offset.
constexpr uintptr_t kNullBytes = 64 * 1024;

}  // namespace braid::emulated
