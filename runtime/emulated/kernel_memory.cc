#include "runtime/emulated/kernel_memory.h"

#include <string>

#include "runtime/emulated/block.h"
#include "runtime/emulated/kernel.h"

namespace braid::emulated {

__thread KernelMemory* current_memory __attribute__((tls_model("initial-exec"))) = nullptr;

KernelMemory::KernelMemory()
    : thread_{reinterpret_cast<uintptr_t>(&current_kernel_thread), sizeof current_kernel_thread},
      scope_{reinterpret_cast<uintptr_t>(&atomic_scope), sizeof atomic_scope} {}

bool KernelMemory::holds_constant(uintptr_t address, size_t size) {
  const AddressRange segment = constants_at(address);
  if (!segment.holds(address, size)) return false;
  constants_ = segment;
  return true;
}

void fail_host_access(uintptr_t address, size_t size, AccessKind kind) {
  BlockRunner& runner = *BlockRunner::current();
  if (runner.overdue()) runner.fail_overdue();
  runner.fail(FindingKind::kIllegalAccess, [&] {
    const std::string access = std::string(kind == AccessKind::kRead    ? "read"
                                           : kind == AccessKind::kWrite ? "write"
                                                                        : "atomic access") +
                               " of " + std::to_string(size) + " bytes ";
    if (address < kNullBytes)
      return access + "through a null pointer" +
             (address == 0 ? "" : ", " + std::to_string(address) + " bytes behind it");
    if (runner.is_stack(address)) return access + "of another thread's local memory";
    if (!constants_at(address).empty()) return access + "of a constant of the program";
    if (!variables_at(address).empty())
      return "host memory in a kernel: " + access + "of a variable of host code";
    if (is_mapped(address)) return "host memory in a kernel: " + access + "that are not the device's";
    return access + "at an address at which there is no memory";
  });
}

void fail_stack_overflow() {
  BlockRunner::current()->fail(FindingKind::kKernelFault, [&] {
    return "the stack overflows, of which a thread has " + std::to_string(Fiber::kStackBytes / 1024) +
           " KiB here: calls are nested too deeply, or local variables are too large";
  });
}

}  // namespace braid::emulated
