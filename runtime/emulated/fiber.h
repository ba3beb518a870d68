// Stackful fibers, on which the threads of a block run. A fiber belongs to the host thread that made it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace braid::emulated {

#if defined(__SANITIZE_THREAD__)
#define BRAID_FIBER_TSAN 1
#endif
#if defined(__SANITIZE_ADDRESS__)
#define BRAID_FIBER_ASAN 1
#endif

class Fiber {
 public:
  // `entry` is called on the fiber's own stack at the first resume after construction or restart. It must
  // never return, but give back control with suspend(). Throws std::bad_alloc.
  explicit Fiber(std::function<void()> entry);
  ~Fiber();
  Fiber(const Fiber&) = delete;

  // Call on the host thread's own stack: runs the fiber until it suspends.
  void resume();
  // Call on the fiber: returns control to the caller of resume().
  void suspend();
  // Abandons what the fiber was doing; objects on its stack are not destroyed.
  void restart();

  uintptr_t stack_begin() const { return reinterpret_cast<uintptr_t>(stack_) + kGuardBytes; }
  uintptr_t stack_end() const { return stack_begin() + kStackBytes; }
  // Returns a stack address at which code that runs on this fiber may continue after abandoning all its
  // frames. Safe within a signal handler.
  uintptr_t abandoned_stack();

  static constexpr size_t kStackBytes = 64 * 1024;
  // No access, so that a stack which overflows reaches no other memory.
  static constexpr size_t kGuardBytes = 64 * 1024;

 private:
  static void start(Fiber* fiber);
  void prepare();

  std::function<void()> entry_;
  char* stack_ = nullptr;  // begins with the guard
  size_t color_ = 0;       // bytes left free at its top
#if defined(__x86_64__)
  void* own_ = nullptr;
  void* caller_ = nullptr;
#else
  ucontext_t own_, caller_;
#endif
#ifdef BRAID_FIBER_ASAN
  void* own_fake_stack_ = nullptr;
  void* caller_fake_stack_ = nullptr;
  const void* caller_bottom_ = nullptr;
  size_t caller_size_ = 0;
#endif
#ifdef BRAID_FIBER_TSAN
  void* own_tsan_ = nullptr;
  void* caller_tsan_ = nullptr;
#endif
};

}  // namespace braid::emulated
