// The processor on which a worker waits for work. When its caller has work and runs there by now, the worker
// is moved before it is woken.
//
// A busy system may wake a thread on the processor where it slept without looking for an idle one. The worker
// would come only after milliseconds, when the caller has computed alone.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstddef>

namespace braid::rt {

class WaitingPlace {
 public:
  // By the worker, before it waits.
  void note() {
    if (const int now = sched_getcpu(); !is_at(now)) processor_.store(now, std::memory_order_relaxed);
  }
  bool is_at(int processor) const { return processor_.load(std::memory_order_relaxed) == processor; }

  // By the caller, before it wakes the worker, which will not run on this processor until its next release():
  // one that is late from the job before computes this one so. Without another processor, nothing happens.
  void keep_off(int processor, pthread_t worker) {
    if (kept_off_.load(std::memory_order_acquire)) return;
    if (pthread_getaffinity_np(worker, sizeof allowed_, &allowed_) != 0) return;
    cpu_set_t others = allowed_;
    CPU_CLR(static_cast<std::size_t>(processor), &others);
    if (CPU_COUNT(&others) == 0 || pthread_setaffinity_np(worker, sizeof others, &others) != 0) return;
    kept_off_.store(true, std::memory_order_release);
  }

  // By the worker, when it runs: it may run where it might before keep_off().
  void release() {
    if (!kept_off_.load(std::memory_order_acquire)) return;
    sched_setaffinity(0, sizeof allowed_, &allowed_);
    processor_.store(-1, std::memory_order_relaxed);
    kept_off_.store(false, std::memory_order_release);
  }

 private:
  std::atomic<int> processor_ = -1;
  std::atomic<bool> kept_off_ = false;
  cpu_set_t allowed_ = {};  // before keep_off(); the worker's while kept_off_, else the caller's
};

}  // namespace braid::rt
