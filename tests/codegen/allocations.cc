#include "tests/codegen/allocations.h"

#include <link.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {
std::atomic<bool> counting{false};
std::atomic<long> allocations{0};
thread_local long of_this_thread = 0;

// Where oneDNN's code lies. Its execute puts its arguments into a table that it allocates, a few hundred
// bytes per call, which cannot be prevented. Allocations by the program and the runtime themselves are
// counted.
std::uintptr_t dnnl_begin = 0, dnnl_end = 0;

void find_dnnl() {
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void*) {
        if (!std::strstr(info->dlpi_name, "libdnnl")) return 0;
        for (int k = 0; k < info->dlpi_phnum; ++k) {
          const auto& segment = info->dlpi_phdr[k];
          if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
          dnnl_begin = info->dlpi_addr + segment.p_vaddr;
          dnnl_end = dnnl_begin + segment.p_memsz;
        }
        return 1;
      },
      nullptr);
}

[[maybe_unused]] void count(const void* caller) {
  const auto at = reinterpret_cast<std::uintptr_t>(caller);
  if (at >= dnnl_begin && at < dnnl_end) return;
  ++of_this_thread;
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
}
}  // namespace

// A sanitizer's allocator must not be taken from under it.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// glibc's own malloc stays reachable under this name. Calls of both functions are seen here, also those of
// the generated library. Neither function calls the other, so the return address is that of the code that
// asked.
extern "C" void* __libc_malloc(std::size_t);
extern "C" void* malloc(std::size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_malloc(bytes);
}
void* operator new(std::size_t bytes) {
  count(__builtin_return_address(0));
  if (void* p = __libc_malloc(bytes)) return p;
  throw std::bad_alloc();
}
#endif

namespace braid::test {

void begin_counting_allocations() {
  find_dnnl();
  allocations = 0;
  counting = true;
}

long end_counting_allocations() {
  counting = false;
  return allocations;
}

long allocations_of_this_thread() { return of_this_thread; }

}  // namespace braid::test
