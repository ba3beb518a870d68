// Kernels that fault or never end.
//
// A fault of the processor in a kernel raises a signal: a null pointer that no hook has reported, a trap, a
// division by zero, a call of abort, a stack that overflows. So does a timer that counts the processor time
// of the host thread. The handler lets the host thread continue on the fiber's stack, where the kernel is
// given up with a finding. That is possible at every instruction of the program itself, which holds no locks,
// but not within libraries. If a kernel that does not end is found within a library, it is given up at its
// next access to memory or at a later tick.
//
// A kernel counts as endless if one of its threads takes longer than the time-out without a barrier or an
// end. It also does if one of its blocks takes longer than BRAID_EMULATED_HANG_MS (or the time-out, if that
// is longer). Both are measured in processor time. All other signals belong to the host: they go to their
// previous handlers.
#pragma once

#include <signal.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "runtime/emulated/fiber.h"
#include "runtime/emulated/findings.h"
#include "runtime/emulated/program_image.h"

namespace braid::emulated {

class KernelWatch {
 public:
  // Belongs to the calling host thread, on which it must be destroyed.
  KernelWatch();
  ~KernelWatch();
  KernelWatch(const KernelWatch&) = delete;

  // A launch of `function`, called `kernel` in messages of a process that ends at once.
  void begin_launch(const void* function, const char* kernel);
  void begin_block() { count(blocks_); }
  void run_thread() { count(turns_); }
  void run_fiber(Fiber* fiber) { fiber_ = fiber; }
  void end_launch();

  // Null, or how the kernel has shown that it does not end.
  bool overdue() const { return overdue_ != Overdue::kNot; }
  bool block_is_overdue() const { return overdue_ == Overdue::kBlock; }
  std::string overdue_text() const;

 private:
  enum class Overdue : uint8_t { kNot, kThread, kBlock };
  using Count = std::atomic<uint64_t>;

  // Only this host thread writes it, and its signal handler reads it.
  static void count(Count& at) {
    at.store(at.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  static void install();
  static void on_fault(int signal, siginfo_t* info, void* context);
  static void on_tick(int signal, siginfo_t* info, void* context);
  [[noreturn]] static void give_up();

  bool takes(int signal, const siginfo_t& info, void* context);
  void tick(void* context);
  void divert(void* context);
  FindingKind kind_of_fault() const;
  std::string text_of_fault() const;

  void* stack_ = nullptr;  // of signal handlers
  stack_t stack_before_{};
  timer_t timer_{};
  bool has_timer_ = false;

  const char* kernel_ = "";
  const void* function_ = nullptr;
  AddressRange code_;  // of the object that holds it
  Fiber* fiber_ = nullptr;
  std::chrono::nanoseconds thread_limit_{0}, block_limit_{0};

  // Counted by the runner; seen by ticks.
  Count turns_{0}, blocks_{0};
  uint64_t seen_turns_ = 0, seen_blocks_ = 0;
  std::chrono::nanoseconds turn_began_{0}, block_began_{0};
  std::atomic<Overdue> overdue_{Overdue::kNot};

  // The signal of the latest diversion; 0: a kernel that does not end.
  int signal_ = 0;
  bool overflow_ = false;
  bool call_ = false;  // a call of an address that is no code
  uintptr_t address_ = 0;
};

}  // namespace braid::emulated
