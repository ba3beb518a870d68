// Stackful fibers, on which the threads of a block run. A fiber belongs to the host thread that made it.
#pragma once

#include <cstddef>
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
  // never return, but give back control with suspend().
  explicit Fiber(std::function<void()> entry);
  ~Fiber();
  Fiber(const Fiber&) = delete;

  // Call on the host thread's own stack: runs the fiber until it suspends.
  void resume();
  // Call on the fiber: returns control to the caller of resume().
  void suspend();
  // Abandons what the fiber was doing; objects on its stack are not destroyed.
  void restart();

 private:
  static void start(Fiber* fiber);
  void prepare();

  std::function<void()> entry_;
  char* stack_ = nullptr;  // with a guard page below
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
