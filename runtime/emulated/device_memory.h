// The memory of all emulated devices: one reserved range of addresses, so that one comparison identifies a
// device pointer, and peers' pointers work unchanged.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/emulated/addresses.h"

namespace braid::emulated {

constexpr unsigned char kPoison = 0xCB;  // 0xCBCBCBCB as a float is -2.67e7, as bfloat16 the same

// Pinned host memory is in the region as well, so accesses of it by copies, kernels and host code are checked
// in the same way.
enum class AllocationKind { kCuda, kNccl, kPinned };

struct Allocation {
  uintptr_t begin = 0;
  size_t size = 0;
  int device = 0;
  int ordinal = 0;  // counts the device's allocations
  AllocationKind kind = AllocationKind::kCuda;
  bool freed = false;
  std::string label;  // ONNX node

  uintptr_t end() const { return begin + size; }
  std::string describe() const;
  // The device whose memory it takes, or -1: the host.
  int owner() const { return kind == AllocationKind::kPinned ? -1 : device; }
};

// Start of the region; before it exists, a value that is far from every address.
extern uintptr_t device_region_begin;

class DeviceMemory {
 public:
  DeviceMemory();  // throws std::bad_alloc if there are no addresses for it

  static bool contains(uintptr_t address) { return address - device_region_begin < kRegionBytes; }

  // Null if the device's or the region's memory is exhausted. The memory is filled with poison and counts as
  // uninitialised, unless it is pinned: not all host code is observed.
  void* allocate(size_t size, int device, AllocationKind kind, size_t device_limit, std::string label = {});
  // False if `pointer` is not the start of a live allocation.
  bool free(void* pointer, AllocationKind kind);

  // Index of the allocation, live or freed, whose pages hold the address; -1: none.
  int find(uintptr_t address) const;
  const Allocation& at(int index) const;
  size_t used_bytes(int device) const;
  std::vector<Allocation> live() const;
  void restart_ordinals();
  // Overwrites what has been written there with poison; it counts as uninitialised again.
  void forget(uintptr_t begin, uintptr_t end);

  // One bit per byte: written at least once since it was allocated. Bit i of a word is byte i of 64.
  std::atomic<uint64_t>& initialized_word(uintptr_t address) const {
    return initialized_[(address - base_) / 64];
  }

 private:
  uintptr_t base_ = 0;
  uintptr_t next_ = 0;
  std::atomic<uint64_t>* initialized_ = nullptr;
  std::atomic<uint32_t>* page_owner_ = nullptr;  // index + 1
  mutable std::mutex mutex_;
  std::deque<Allocation> allocations_;
  std::multimap<size_t, uintptr_t> reusable_;     // by size in bytes, including pages and guard
  std::map<int, size_t> used_;                    // by owner
  std::map<std::pair<int, bool>, int> ordinals_;  // by device, and pinned or not
};

DeviceMemory& device_memory();

}  // namespace braid::emulated
