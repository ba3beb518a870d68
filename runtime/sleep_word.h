// A number that threads of one process wait for: they spin for a while, and then sleep.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "runtime/comm/futex.h"

namespace braid::rt {

class alignas(64) SleepWord {
 public:
  uint32_t get() const { return value_.load(std::memory_order_acquire); }
  // Only while no thread waits.
  void reset(uint32_t value) { value_.store(value, std::memory_order_relaxed); }
  void set(uint32_t value) {
    value_.store(value);
    wake();
  }
  void add(uint32_t value) {
    value_.fetch_add(value);
    wake();
  }
  // Returns the value when it is no longer `value`.
  uint32_t wait_while(uint32_t value, int64_t spin_ns) {
    if (const uint32_t now = get(); now != value) return now;
    const int64_t began = monotonic_ns();
    for (int64_t spun = 0; spun < spin_ns; spun = monotonic_ns() - began) {
      // The thread that is waited for may have been put on this processor.
      if (spun > kYieldAfter) sched_yield();
      for (int k = 0; k < kPauses; ++k) {
        cpu_pause();
        if (const uint32_t now = get(); now != value) return now;
      }
    }
    sleepers_.fetch_add(1);
    uint32_t now = value_.load();
    for (; now == value; now = value_.load()) futex_wait(value_, value, kSecond);
    sleepers_.fetch_sub(1);
    return now;
  }

 private:
  static constexpr int kPauses = 16;
  static constexpr int64_t kYieldAfter = 2'000;  // nanoseconds
  static constexpr int64_t kSecond = 1'000'000'000;

  // Sequential consistency: either this sees the sleeper, or the sleeper sees the new value.
  void wake() {
    if (sleepers_.load() != 0) futex_wake_all(value_);
  }

  std::atomic<uint32_t> value_ = 0, sleepers_ = 0;
};

}  // namespace braid::rt
