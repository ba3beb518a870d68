// The functions that g++ -fsanitize=thread calls at every load and store. A generated program is compiled
// with that instrumentation and linked with this library instead of libtsan, so that the actual accesses of
// its kernels and host code are observed here.
//
// With the real thread sanitizer on, libtsan has these names: then nothing is observed here, and it checks the
// emulated device itself.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime/emulated/access_set.h"
#include "runtime/emulated/block.h"
#include "runtime/emulated/finding_list.h"
#include "runtime/emulated/host_thread.h"

namespace braid::emulated {

// The accesses of the kernel that runs on this host thread; null outside kernels.
__thread AccessSet* current_accesses __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {

__attribute__((noinline)) void outside_kernel(uintptr_t address, size_t size, AccessKind kind) {
  const int index = device_memory().find(address);
  if (index >= 0 && device_memory().at(index).kind == AllocationKind::kPinned &&
      host_thread().touch_pinned(address, size, kind))
    return;
  std::string text = "host code of rank " + std::to_string(host_thread().device);
  text += kind == AccessKind::kRead ? " reads " : " writes ";
  std::string where = "outside any allocation";
  if (index >= 0) {
    const Allocation allocation = device_memory().at(index);
    where = allocation.describe() + (allocation.freed ? ", which is freed" : "");
  }
  // A loop over a buffer gives one finding.
  finding_list().add(FindingKind::kHostAccess, text + where,
                     text + std::to_string(size) + " bytes of device memory by itself: " + where);
}

inline void observe(const void* pointer, size_t size, AccessKind kind) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  if (__builtin_expect(address - device_region_begin >= kRegionBytes, 1)) return;
  AccessSet* accesses = current_accesses;
  if (accesses == nullptr) {
    outside_kernel(address, size, kind);
    return;
  }
  const std::string* fault = accesses->record(address, size, kind);
  if (fault != nullptr) BlockRunner::current()->fail(FindingKind::kIllegalAccess, [&] { return *fault; });
}

}  // namespace
}  // namespace braid::emulated

using braid::emulated::AccessKind;
using braid::emulated::observe;

extern "C" {

void* braid_emulated_memcpy(void* to, const void* from, size_t size) {
  if (size > 0) observe(from, size, AccessKind::kRead), observe(to, size, AccessKind::kWrite);
  return std::memcpy(to, from, size);
}
void* braid_emulated_memmove(void* to, const void* from, size_t size) {
  if (size > 0) observe(from, size, AccessKind::kRead), observe(to, size, AccessKind::kWrite);
  return std::memmove(to, from, size);
}
void* braid_emulated_memset(void* to, int value, size_t size) {
  if (size > 0) observe(to, size, AccessKind::kWrite);
  return std::memset(to, value, size);
}

#ifndef __SANITIZE_THREAD__

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

#define BRAID_HOOKS(size)                                                              \
  void __tsan_read##size(void* p) { observe(p, size, AccessKind::kRead); }             \
  void __tsan_write##size(void* p) { observe(p, size, AccessKind::kWrite); }           \
  void __tsan_unaligned_read##size(void* p) { observe(p, size, AccessKind::kRead); }   \
  void __tsan_unaligned_write##size(void* p) { observe(p, size, AccessKind::kWrite); } \
  void __tsan_volatile_read##size(void* p) { observe(p, size, AccessKind::kRead); }    \
  void __tsan_volatile_write##size(void* p) { observe(p, size, AccessKind::kWrite); }
BRAID_HOOKS(1)
BRAID_HOOKS(2)
BRAID_HOOKS(4)
BRAID_HOOKS(8)
BRAID_HOOKS(16)
#undef BRAID_HOOKS
void __tsan_read_range(void* p, size_t size) {
  if (size > 0) observe(p, size, AccessKind::kRead);
}
void __tsan_write_range(void* p, size_t size) {
  if (size > 0) observe(p, size, AccessKind::kWrite);
}

// Hooks of atomics replace the instruction, so they execute it, always with the strongest order.
#define BRAID_ATOMICS(bits, type)                                                                         \
  type __tsan_atomic##bits##_load(const volatile type* p, int) {                                          \
    observe(const_cast<type*>(p), sizeof(type), AccessKind::kAtomic);                                     \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                          \
  }                                                                                                       \
  void __tsan_atomic##bits##_store(volatile type* p, type v, int) {                                       \
    observe(const_cast<type*>(p), sizeof(type), AccessKind::kAtomicStore);                                \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                             \
  }                                                                                                       \
  type __tsan_atomic##bits##_exchange(volatile type* p, type v, int) {                                    \
    observe(const_cast<type*>(p), sizeof(type), AccessKind::kAtomic);                                     \
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                                   \
  }                                                                                                       \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile type* p, type* expected, type v, int, int) { \
    observe(const_cast<type*>(p), sizeof(type), AccessKind::kAtomic);                                     \
    return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);        \
  }                                                                                                       \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile type* p, type* expected, type v, int, int) {   \
    observe(const_cast<type*>(p), sizeof(type), AccessKind::kAtomic);                                     \
    return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);        \
  }                                                                                                       \
  type __tsan_atomic##bits##_compare_exchange_val(volatile type* p, type expected, type v, int, int) {    \
    observe(const_cast<type*>(p), sizeof(type), AccessKind::kAtomic);                                     \
    __atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);              \
    return expected;                                                                                      \
  }
#define BRAID_FETCH(bits, type, name, builtin)                             \
  type __tsan_atomic##bits##_fetch_##name(volatile type* p, type v, int) { \
    observe(const_cast<type*>(p), sizeof(type), AccessKind::kAtomic);      \
    return builtin(p, v, __ATOMIC_SEQ_CST);                                \
  }
#define BRAID_ALL_ATOMICS(bits, type)              \
  BRAID_ATOMICS(bits, type)                        \
  BRAID_FETCH(bits, type, add, __atomic_fetch_add) \
  BRAID_FETCH(bits, type, sub, __atomic_fetch_sub) \
  BRAID_FETCH(bits, type, and, __atomic_fetch_and) \
  BRAID_FETCH(bits, type, or, __atomic_fetch_or)   \
  BRAID_FETCH(bits, type, xor, __atomic_fetch_xor) \
  BRAID_FETCH(bits, type, nand, __atomic_fetch_nand)
BRAID_ALL_ATOMICS(8, uint8_t)
BRAID_ALL_ATOMICS(16, uint16_t)
BRAID_ALL_ATOMICS(32, uint32_t)
BRAID_ALL_ATOMICS(64, uint64_t)
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) {}

#endif

}  // extern "C"
