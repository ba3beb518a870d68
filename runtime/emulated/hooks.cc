// The functions that g++ -fsanitize=thread calls at every load and store. A generated program is compiled
// with that instrumentation and linked with this library instead of libtsan, so that the actual accesses of
// its kernels and host code are observed here.
//
// With the real thread sanitizer on, libtsan has these names: then nothing is observed here, and it checks
// the emulated device itself.
#include "runtime/emulated/hooks.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime/emulated/access_counter.h"
#include "runtime/emulated/access_set.h"
#include "runtime/emulated/block.h"
#include "runtime/emulated/finding_list.h"
#include "runtime/emulated/flags.h"
#include "runtime/emulated/host_thread.h"
#include "runtime/emulated/host_variables.h"
#include "runtime/emulated/kernel_memory.h"
#include "runtime/emulated/kernel_operation.h"

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

__attribute__((noinline)) void in_shared(uintptr_t code, uintptr_t address, size_t size, AccessKind kind) {
  BlockRunner* runner = BlockRunner::current();
  if (runner == nullptr) return;
  if (runner->overdue()) runner->fail_overdue();
  const std::string* fault = runner->checks().shared_access(address, size, kind);
  if (fault != nullptr) runner->fail(FindingKind::kIllegalAccess, [&] { return *fault; });
  if (current_races != nullptr) current_races->shared(address, size, kind);
  if (current_counter == nullptr) return;
  const uintptr_t begin = runner->checks().shared().begin_of_array(address);
  current_counter->shared(code, begin, address - begin, size, kind);
}

[[noreturn]] __attribute__((noinline)) void fail_access(const std::string& fault) {
  BlockRunner& runner = *BlockRunner::current();
  if (runner.overdue()) runner.fail_overdue();
  runner.fail(FindingKind::kIllegalAccess, [&] { return fault; });
}

// By host code.
inline void in_host_memory(uintptr_t address, size_t size, AccessKind kind) {
  if (is_watched_variable(address)) touch_variable(address, size, kind);
}

inline void observe(uintptr_t code, const void* pointer, size_t size, AccessKind kind) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  if (__builtin_expect(address - device_region_begin >= kRegionBytes, 1)) {
    if (__builtin_expect(address - shared_region_begin < kSharedRegionBytes, 0))
      in_shared(code, address, size, kind);
    else if (current_kernel_thread == nullptr)
      in_host_memory(address, size, kind);
    else if (!current_memory->holds(address, size, kind))
      fail_host_access(address, size, kind);
    return;
  }
  AccessSet* accesses = current_accesses;
  if (accesses == nullptr) {
    outside_kernel(address, size, kind);
    return;
  }
  const std::string* fault = accesses->record(address, size, kind);
  if (fault != nullptr) fail_access(*fault);
  if (__builtin_expect(current_counter != nullptr, 0)) current_counter->global(code, address, size, kind);
  if (current_races == nullptr) return;
  current_races->global(address, size, kind);
  if (__builtin_expect(current_copies != nullptr, 0) && kind != AccessKind::kRead)
    current_copies->write_source(address, size);
  if (current_log != nullptr) current_log->add(address, size, current_races->thread(), kind);
}

// The guards of local static variables are bytes.
inline void saw_byte(const volatile void* pointer, bool set) {
  if (current_kernel_thread == nullptr && is_watched_variable(reinterpret_cast<uintptr_t>(pointer)))
    saw_guard(pointer, set);
}

// For accesses of one instruction. GCC reports those of types with a smaller alignment as ranges.
template <size_t size>
inline void observe_aligned(uintptr_t code, const void* pointer, AccessKind kind) {
  if (__builtin_expect(reinterpret_cast<uintptr_t>(pointer) % size != 0, 0)) check_alignment(pointer, size);
  observe(code, pointer, size, kind);
}

// An atomic access by the compiler's hooks or ours.
template <class T, class Function>
void hooked_atomic(uintptr_t code, const char* what, const volatile T* pointer, AccessKind kind, int order,
                   unsigned patience, const Function& access) {
  observe_aligned<sizeof(T)>(code, const_cast<const T*>(pointer), kind);
  atomic_access(what, reinterpret_cast<uintptr_t>(pointer), order, patience, access);
}

template <class T>
uint64_t compare_and_swap(uintptr_t code, T* p, T compare, T value) {
  T before = compare;
  hooked_atomic<T>(code, "atomicCAS", p, AccessKind::kAtomic, __ATOMIC_RELAXED, 2, [&] {
    const bool done =
        __atomic_compare_exchange_n(p, &before, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return AtomicEffect{true, done, before, value};
  });
  return before;
}

}  // namespace

void observe_access(uintptr_t code, const void* pointer, size_t size, AccessKind kind) {
#ifndef __SANITIZE_THREAD__
  observe(code, pointer, size, kind);
#else
  (void)code, (void)pointer, (void)size, (void)kind;
#endif
}

void require_shared(const char* what, const void* pointer) {
  if (reinterpret_cast<uintptr_t>(pointer) - shared_region_begin < kSharedRegionBytes) return;
  BlockRunner::current()->fail(FindingKind::kIllegalAccess,
                               [&] { return std::string(what) + ": the address is not in shared memory"; });
}

uint64_t compare_and_swap(void* address, size_t size, uint64_t compare, uint64_t value, Scope scope) {
  const WithScope with(scope);
  const uintptr_t code = BRAID_CALLER;
  if (size == 4)
    return compare_and_swap(code, static_cast<uint32_t*>(address), static_cast<uint32_t>(compare),
                            static_cast<uint32_t>(value));
  if (size == 2)
    return compare_and_swap(code, static_cast<uint16_t*>(address), static_cast<uint16_t>(compare),
                            static_cast<uint16_t>(value));
  return compare_and_swap(code, static_cast<uint64_t*>(address), compare, value);
}

}  // namespace braid::emulated

using braid::emulated::AccessKind;
using braid::emulated::AtomicEffect;
using braid::emulated::hooked_atomic;
using braid::emulated::observe;
using braid::emulated::observe_aligned;
using braid::emulated::saw_byte;

extern "C" {

void* braid_emulated_memcpy(void* to, const void* from, size_t size) {
  if (size > 0)
    observe(BRAID_CALLER, from, size, AccessKind::kRead), observe(BRAID_CALLER, to, size, AccessKind::kWrite);
  return std::memcpy(to, from, size);
}
void* braid_emulated_memmove(void* to, const void* from, size_t size) {
  if (size > 0)
    observe(BRAID_CALLER, from, size, AccessKind::kRead), observe(BRAID_CALLER, to, size, AccessKind::kWrite);
  return std::memmove(to, from, size);
}
void* braid_emulated_memset(void* to, int value, size_t size) {
  if (size > 0) observe(BRAID_CALLER, to, size, AccessKind::kWrite);
  return std::memset(to, value, size);
}

#ifndef __SANITIZE_THREAD__

void __tsan_init() {}
void __tsan_func_entry(void*) {
  if (braid::emulated::current_kernel_thread == nullptr) {
    braid::emulated::watch_variables_of(reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
    return;
  }
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  if (braid::emulated::current_memory->overflows(here)) braid::emulated::fail_stack_overflow();
}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

#define BRAID_HOOKS(size)                                                                                 \
  void __tsan_read##size(void* p) { observe_aligned<size>(BRAID_CALLER, p, AccessKind::kRead); }          \
  void __tsan_write##size(void* p) { observe_aligned<size>(BRAID_CALLER, p, AccessKind::kWrite); }        \
  void __tsan_unaligned_read##size(void* p) { observe(BRAID_CALLER, p, size, AccessKind::kRead); }        \
  void __tsan_unaligned_write##size(void* p) { observe(BRAID_CALLER, p, size, AccessKind::kWrite); }      \
  void __tsan_volatile_read##size(void* p) { observe_aligned<size>(BRAID_CALLER, p, AccessKind::kRead); } \
  void __tsan_volatile_write##size(void* p) { observe_aligned<size>(BRAID_CALLER, p, AccessKind::kWrite); }
BRAID_HOOKS(1)
BRAID_HOOKS(2)
BRAID_HOOKS(4)
BRAID_HOOKS(8)
BRAID_HOOKS(16)
#undef BRAID_HOOKS
void __tsan_read_range(void* p, size_t size) {
  if (size > 0) observe(BRAID_CALLER, p, size, AccessKind::kRead);
}
void __tsan_write_range(void* p, size_t size) {
  if (size > 0) observe(BRAID_CALLER, p, size, AccessKind::kWrite);
}

// Hooks of atomics replace the instruction, so they execute it, always with the strongest order. A load of a
// flag that has not been raised is repeated some times before others run.
#define BRAID_ATOMICS(bits, type)                                                                            \
  type __tsan_atomic##bits##_load(const volatile type* p, int order) {                                       \
    type value = 0;                                                                                          \
    hooked_atomic<type>(BRAID_CALLER, "an atomic load", p, AccessKind::kAtomic, order, 64, [&] {             \
      value = __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                          \
      return AtomicEffect{true, false, static_cast<uint64_t>(value), 0};                                     \
    });                                                                                                      \
    if (sizeof(type) == 1) saw_byte(p, value != 0);                                                          \
    return value;                                                                                            \
  }                                                                                                          \
  void __tsan_atomic##bits##_store(volatile type* p, type v, int order) {                                    \
    hooked_atomic<type>(BRAID_CALLER, "an atomic store", p, AccessKind::kAtomicStore, order, 0, [&] {        \
      __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                              \
      return AtomicEffect{false, true, 0, static_cast<uint64_t>(v)};                                         \
    });                                                                                                      \
  }                                                                                                          \
  type __tsan_atomic##bits##_compare_exchange_val(volatile type* p, type expected, type v, int order, int) { \
    hooked_atomic<type>(BRAID_CALLER, "an atomic exchange", p, AccessKind::kAtomic, order, 2, [&] {          \
      const type wanted = expected;                                                                          \
      const bool done = __atomic_compare_exchange_n(const_cast<type*>(p), &expected, v, false,               \
                                                    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                     \
      if (done) expected = wanted;                                                                           \
      return AtomicEffect{true, done, static_cast<uint64_t>(expected), static_cast<uint64_t>(v)};            \
    });                                                                                                      \
    return expected;                                                                                         \
  }                                                                                                          \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile type* p, type* expected, type v, int order,     \
                                                    int on_failure) {                                        \
    const type wanted = *expected;                                                                           \
    *expected = __tsan_atomic##bits##_compare_exchange_val(p, wanted, v, order, on_failure);                 \
    return *expected == wanted;                                                                              \
  }                                                                                                          \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile type* p, type* expected, type v, int order,       \
                                                  int on_failure) {                                          \
    return __tsan_atomic##bits##_compare_exchange_strong(p, expected, v, order, on_failure);                 \
  }
#define BRAID_FETCH(bits, type, name, builtin)                                                    \
  type __tsan_atomic##bits##_##name(volatile type* p, type v, int order) {                        \
    type before = 0;                                                                              \
    hooked_atomic<type>(BRAID_CALLER, "an atomic update", p, AccessKind::kAtomic, order, 0, [&] { \
      before = builtin(p, v, __ATOMIC_SEQ_CST);                                                   \
      return AtomicEffect{true, true, static_cast<uint64_t>(before),                              \
                          static_cast<uint64_t>(__atomic_load_n(p, __ATOMIC_SEQ_CST))};           \
    });                                                                                           \
    return before;                                                                                \
  }
#define BRAID_ALL_ATOMICS(bits, type)                    \
  BRAID_ATOMICS(bits, type)                              \
  BRAID_FETCH(bits, type, exchange, __atomic_exchange_n) \
  BRAID_FETCH(bits, type, fetch_add, __atomic_fetch_add) \
  BRAID_FETCH(bits, type, fetch_sub, __atomic_fetch_sub) \
  BRAID_FETCH(bits, type, fetch_and, __atomic_fetch_and) \
  BRAID_FETCH(bits, type, fetch_or, __atomic_fetch_or)   \
  BRAID_FETCH(bits, type, fetch_xor, __atomic_fetch_xor) \
  BRAID_FETCH(bits, type, fetch_nand, __atomic_fetch_nand)
BRAID_ALL_ATOMICS(8, uint8_t)
BRAID_ALL_ATOMICS(16, uint16_t)
BRAID_ALL_ATOMICS(32, uint32_t)
BRAID_ALL_ATOMICS(64, uint64_t)
void __tsan_atomic_thread_fence(int) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  braid::emulated::fence(braid::emulated::Scope::kSystem);
}
void __tsan_atomic_signal_fence(int) {}

#endif

}  // extern "C"
