#include "runtime/emulated/fiber.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <utility>

#ifdef BRAID_FIBER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef BRAID_FIBER_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace braid::emulated {
#if defined(__x86_64__)
// Saves the registers that a function must preserve, switches stacks, and returns on the other one. A switch
// is a call, so the compiler has saved all other registers.
extern "C" void braid_emulated_switch(void** save, void* load);
extern "C" void braid_emulated_fiber_entry();
asm(R"(
.text
.type braid_emulated_switch, @function
.hidden braid_emulated_switch
.globl braid_emulated_switch
braid_emulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  subq $8, %rsp
  stmxcsr (%rsp)
  fnstcw 4(%rsp)
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  ldmxcsr (%rsp)
  fldcw 4(%rsp)
  addq $8, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size braid_emulated_switch, .-braid_emulated_switch
.type braid_emulated_fiber_entry, @function
.hidden braid_emulated_fiber_entry
.globl braid_emulated_fiber_entry
braid_emulated_fiber_entry:
  movq %r12, %rdi
  call *%r13
  ud2
.size braid_emulated_fiber_entry, .-braid_emulated_fiber_entry
)");
#endif

Fiber::Fiber(std::function<void()> entry) : entry_(std::move(entry)) {
  void* memory = mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  // Stacks lie 128 KiB apart: with the same frame on all of them, they would compete for one set of the
  // cache.
  static std::atomic<size_t> made{0};
  color_ = made++ % 32 * 128;
  mprotect(memory, kGuardBytes, PROT_NONE);  // optional: it may fail if mappings are scarce
  stack_ = static_cast<char*>(memory);
  prepare();
}

Fiber::~Fiber() {
#ifdef BRAID_FIBER_TSAN
  if (own_tsan_ != nullptr) __tsan_destroy_fiber(own_tsan_);
#endif
#ifdef BRAID_FIBER_ASAN
  __asan_unpoison_memory_region(stack_ + kGuardBytes, kStackBytes);
#endif
  munmap(stack_, kStackBytes + kGuardBytes);
}

void Fiber::prepare() {
#if defined(__x86_64__)
  // The frame that braid_emulated_switch pops: control words, r15..rbp, return address.
  uint64_t* top = reinterpret_cast<uint64_t*>(stack_ + kGuardBytes + kStackBytes - color_) - 10;
  uint32_t control[2] = {};
  asm volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(control[0]), "=m"(control[1]));
  top[0] = control[0] | static_cast<uint64_t>(control[1]) << 32;
  top[1] = 0;                                          // r15
  top[2] = 0;                                          // r14
  top[3] = reinterpret_cast<uint64_t>(&Fiber::start);  // r13
  top[4] = reinterpret_cast<uint64_t>(this);           // r12
  top[5] = 0;                                          // rbx
  top[6] = 0;                                          // rbp
  top[7] = reinterpret_cast<uint64_t>(&braid_emulated_fiber_entry);
  top[8] = top[9] = 0;
  own_ = top;
#else
  getcontext(&own_);
  own_.uc_stack.ss_sp = stack_ + kGuardBytes;
  own_.uc_stack.ss_size = kStackBytes;
  own_.uc_link = nullptr;
  const uint64_t self = reinterpret_cast<uint64_t>(this);
  makecontext(&own_, reinterpret_cast<void (*)()>(+[](unsigned low, unsigned high) {
    start(reinterpret_cast<Fiber*>(static_cast<uint64_t>(high) << 32 | low));
  }),
              2, static_cast<unsigned>(self), static_cast<unsigned>(self >> 32));
#endif
#ifdef BRAID_FIBER_TSAN
  own_tsan_ = __tsan_create_fiber(0);
#endif
}

void Fiber::start(Fiber* fiber) {
#ifdef BRAID_FIBER_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &fiber->caller_bottom_, &fiber->caller_size_);
#endif
  fiber->entry_();
  std::fprintf(stderr, "emulated device: internal error: a fiber's entry returned\n");
  std::abort();
}

void Fiber::resume() {
#ifdef BRAID_FIBER_ASAN
  __sanitizer_start_switch_fiber(&caller_fake_stack_, stack_ + kGuardBytes, kStackBytes);
#endif
#ifdef BRAID_FIBER_TSAN
  caller_tsan_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(own_tsan_, 0);
#endif
#if defined(__x86_64__)
  braid_emulated_switch(&caller_, own_);
#else
  swapcontext(&caller_, &own_);
#endif
#ifdef BRAID_FIBER_ASAN
  __sanitizer_finish_switch_fiber(caller_fake_stack_, nullptr, nullptr);
#endif
}

void Fiber::suspend() {
#ifdef BRAID_FIBER_ASAN
  __sanitizer_start_switch_fiber(&own_fake_stack_, caller_bottom_, caller_size_);
#endif
#ifdef BRAID_FIBER_TSAN
  __tsan_switch_to_fiber(caller_tsan_, 0);
#endif
#if defined(__x86_64__)
  braid_emulated_switch(&own_, caller_);
#else
  swapcontext(&own_, &caller_);
#endif
#ifdef BRAID_FIBER_ASAN
  __sanitizer_finish_switch_fiber(own_fake_stack_, &caller_bottom_, &caller_size_);
#endif
}

uintptr_t Fiber::abandoned_stack() {
#ifdef BRAID_FIBER_ASAN
  __asan_unpoison_memory_region(stack_ + kGuardBytes, kStackBytes);
#endif
  return stack_end() - color_ - 256;
}

void Fiber::restart() {
#ifdef BRAID_FIBER_ASAN
  __asan_unpoison_memory_region(stack_ + kGuardBytes, kStackBytes);
#endif
#ifdef BRAID_FIBER_TSAN
  __tsan_destroy_fiber(own_tsan_);
#endif
  prepare();
}

}  // namespace braid::emulated
