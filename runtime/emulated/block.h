// Runs the blocks of a kernel one after another on the calling host thread; the threads of a block are
// fibers. A thread that never waits needs no fiber of its own: a fiber runs the next thread when one has
// ended, so a kernel without barriers is a plain loop.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "runtime/emulated/access_set.h"
#include "runtime/emulated/block_checks.h"
#include "runtime/emulated/fiber.h"
#include "runtime/emulated/findings.h"
#include "runtime/emulated/kernel.h"
#include "runtime/emulated/kernel_memory.h"
#include "runtime/emulated/kernel_watch.h"
#include "runtime/emulated/launch_limits.h"

namespace braid::emulated {

constexpr int kLanes = 32;

struct Fault {
  FindingKind kind;
  std::string text;
};

class KernelOperation;

class BlockRunner {
 public:
  BlockRunner();
  ~BlockRunner();

  struct Launch {
    const void* function;
    dim3 grid, block;
    size_t shared_bytes;  // dynamic
    size_t shared_limit;  // of static and dynamic shared memory together
  };
  // Null, or why the kernel was aborted. `operation` holds its accesses so far in either case.
  const Fault* run(const Launch& launch, const LaunchParameters& parameters, KernelOperation& operation);

  // From within a kernel:
  static BlockRunner* current();
  // Never returns, and the caller's objects are not destroyed; `text` is a function so that there are none.
  template <class Text>
  [[noreturn]] void fail(FindingKind kind, const Text& text) {
    record_fault(kind, text(), running_);
    give_up();
  }
  // For the watch: until another thread runs, each access to memory gives the kernel up. Safe within a signal
  // handler.
  void refuse_accesses();
  void record_overdue();
  [[noreturn]] void fail_overdue() {
    record_overdue();
    give_up();
  }
  int barrier(const char* what, Place place, BarrierResult result, int predicate);
  void warp_barrier(unsigned mask);
  uint64_t exchange(const char* what, Place place, unsigned mask, uint64_t value, int source_lane);
  void combine(const char* what, Place place, void* value, size_t bytes, void (*all)(void*));
  unsigned ballot(const char* what, Place place, unsigned mask, bool predicate);
  int lane() const { return static_cast<int>(running_ % kLanes); }
  void* static_shared(const void* site, const char* name, size_t size, size_t alignment);
  KernelOperation& operation() { return *operation_; }
  BlockChecks& checks() { return checks_; }
  unsigned running() const { return running_; }
  bool overdue() const { return watch_.overdue(); }
  // The running thread has read an atomic variable without changing it. If it finds the same value again and
  // again, it waits for another block or rank: it lets others run, and fails after the time-out. `patience`:
  // the number of reads before it lets others run.
  void spin(const char* what, uintptr_t address, uint64_t value, unsigned patience);
  // Whether the address lies in the stack of any thread of the block.
  bool is_stack(uintptr_t address) const;
  // "thread (1,0,0) of block (0,0,0)" of the one that runs
  std::string thread_text() const { return thread_text(running_); }

 private:
  struct Thread {
    KernelThread built_in{};
    Fiber* fiber = nullptr;  // on which it waits
    bool ended = false;
    const char* waits_for = nullptr;  // null: does not wait
    Place place;
    unsigned mask = 0;
    // The latest atomic variable that it has read without changing it.
    uintptr_t spins_at = 0;
    uint64_t spin_value = 0;
    unsigned spins = 0;
    std::chrono::steady_clock::time_point spins_since;
  };
  // One warp operation in progress; several with disjoint masks may be.
  struct Exchange {
    const char* what = nullptr;  // null: free
    Place place;
    unsigned mask = 0, arrived = 0, left = 0;
    size_t bytes = 0;                                       // of a lane's value
    alignas(16) unsigned char values[kLanes * kLaneBytes];  // one behind another
    uint64_t word(int lane) const {
      uint64_t value;
      std::memcpy(&value, values + static_cast<size_t>(lane) * sizeof value, sizeof value);
      return value;
    }
  };
  struct Lanes {
    std::deque<Exchange> exchanges;  // addresses stay
  };

  void make_ready(unsigned thread) { ready_[(ready_first_ + ready_count_++) % ready_.size()] = thread; }
  // A finding of `thread`.
  void record_fault(FindingKind kind, std::string text, unsigned thread);
  [[noreturn]] void give_up();
  void run_block(unsigned threads);
  void fiber_main();
  void call_kernel();  // on the running thread
  Fiber* free_fiber();
  void wait(const char* what, Place place, unsigned mask);
  void switch_to(unsigned thread);
  // For a thread that waits for another rank: returns after all runnable threads of the block have run, or
  // after a moment if there is none.
  void let_others_run(const char* what);
  // Copies the lane's value; the last lane to come lets `all` replace those of all lanes.
  Exchange& join_exchange(const char* what, Place place, unsigned mask, const void* value, size_t bytes,
                          void (*all)(void*) = nullptr);
  Exchange& join_exchange(const char* what, Place place, unsigned mask, uint64_t value) {
    return join_exchange(what, place, mask, &value, sizeof value);
  }
  void leave_exchange(Exchange& exchange);
  std::string thread_text(unsigned thread) const;
  std::string wait_text(const Thread& thread) const;
  void diagnose();

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_fibers_;
  Fiber* running_fiber_ = nullptr;
  bool fiber_kept_ = false;  // the fiber that suspended still holds a waiting thread

  const LaunchParameters* parameters_ = nullptr;
  KernelOperation* operation_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<Lanes> warps_;
  std::vector<unsigned> ready_;  // a ring: every thread is in it at most once
  size_t ready_first_ = 0, ready_count_ = 0;
  std::deque<unsigned> polling_;  // threads that wait for other ranks: run when no other can
  size_t polled_ = 0;             // how many of them have run since any other thread did
  uint64_t flags_seen_ = 0;
  unsigned count_ = 0, next_ = 0, ended_ = 0, running_ = 0;

  unsigned at_barrier_ = 0;
  int barrier_and_ = 1, barrier_or_ = 0, barrier_count_ = 0;
  int barrier_results_[3] = {};

  BlockChecks checks_;
  KernelMemory memory_;
  KernelWatch watch_;
  AccessSet refused_;  // closed
  std::unique_ptr<Fault> fault_;
};

// The runner of the calling host thread, made at its first kernel.
BlockRunner& block_runner();

}  // namespace braid::emulated
