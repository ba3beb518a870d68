// The copies of a block's threads that are in flight: cp.async (runtime/device/async_copy.h).
//
// A copy's target is written twice for the race checker: when it is issued, so that earlier readers must
// precede it, and when its thread waits for it, so that later readers must follow the wait. Its source is
// read at both times, so that other blocks write it after the wait. In between the target holds poison, and
// each access to it is a finding, as is a write of the block to the source.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace braid::emulated {

struct AsyncCopy {
  static constexpr size_t kMostBytes = 16;
  uintptr_t target, source;
  uint32_t bytes, valid;  // `valid` bytes of the source, then zeros
  unsigned thread;
  uint64_t group;  // of the thread, counted from 0
  std::array<unsigned char, kMostBytes> data;
  bool found = false;  // has a finding; more would follow from the same fault

  bool writes(uintptr_t address, size_t size) const {
    return address < target + bytes && target < address + size;
  }
  bool reads(uintptr_t address, size_t size) const {
    return address < source + valid && source < address + size;
  }
};

class AsyncCopies {
 public:
  void begin_block(unsigned threads);

  bool any() const { return in_flight_ > 0; }
  // Addresses are multiples of the copy's bytes.
  void issue(AsyncCopy copy);
  // The copies that `thread` has issued since its last commit become a group.
  void commit(unsigned thread) {
    ++threads_[thread].groups;
    used_ = true;
  }
  bool committed(const AsyncCopy& copy) const { return copy.group < threads_[copy.thread].groups; }
  // Takes the copies of all but the latest `pending` groups of `thread`.
  std::vector<AsyncCopy> take_done(unsigned thread, uint64_t pending);
  // The thread's copies that are in flight.
  const std::vector<AsyncCopy>& of_thread(unsigned thread) const { return threads_[thread].copies; }

  // Calls f(copy) for each copy in flight whose target, or whose source, overlaps the bytes.
  template <class Function>
  void for_targets(uintptr_t address, size_t size, const Function& f) {
    if (!touches(targets_, address, size)) return;
    for_each([&](AsyncCopy& copy) {
      if (copy.writes(address, size)) f(copy);
    });
  }
  template <class Function>
  void for_sources(uintptr_t address, size_t size, const Function& f) {
    if (!touches(sources_, address, size)) return;
    for_each([&](AsyncCopy& copy) {
      if (copy.reads(address, size)) f(copy);
    });
  }

 private:
  // How many copies touch each line of kMostBytes bytes; none touches two lines.
  using Lines = std::unordered_map<uintptr_t, unsigned>;
  struct Thread {
    std::vector<AsyncCopy> copies;  // by group
    uint64_t groups = 0;            // committed
  };
  static bool touches(const Lines& lines, uintptr_t address, size_t size);
  static void leave(Lines& lines, uintptr_t address);
  template <class Function>
  void for_each(const Function& f) {
    for (Thread& thread : threads_)
      for (AsyncCopy& copy : thread.copies) f(copy);
  }

  std::vector<Thread> threads_;
  size_t in_flight_ = 0;
  bool used_ = false;  // by this block
  Lines targets_, sources_;
};

}  // namespace braid::emulated
