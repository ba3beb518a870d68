// The device memory that one operation actually reads and writes: one bit per byte, by pages, while it runs;
// ranges when it is done.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/emulated/device_memory.h"

namespace braid::emulated {

enum class AccessKind { kRead, kWrite, kAtomic, kAtomicStore };

// Offsets from the start of an allocation.
struct AccessRange {
  int allocation;
  size_t begin, end;
};

// Each sorted by allocation and offset, without overlaps.
struct AccessRanges {
  std::vector<AccessRange> reads, writes, atomics;
  std::vector<AccessRange> uninitialized;
  bool empty() const { return reads.empty() && writes.empty() && atomics.empty(); }
};

class AccessSet {
 public:
  AccessSet();

  // Null, or why the access is illegal (outside an allocation, freed). `address` is a device address.
  const std::string* record(uintptr_t address, size_t size, AccessKind kind) {
    Page* page = cache_[address / kPageBytes % kCacheSize];
    if (page == nullptr || page->number != address / kPageBytes || address < page->begin ||
        address + size > page->end)
      return record_slowly(address, size, kind);
    mark(*page, address, size, kind);
    return nullptr;
  }

  // From now on every access is illegal.
  void close() { closed_ = true; }

  // Returns the ranges, marks the written bytes as initialised for all, and empties the set.
  AccessRanges finish();

 private:
  static constexpr size_t kCacheSize = 64;
  static constexpr size_t kWords = kPageBytes / 64;
  using Bits = std::array<uint64_t, kWords>;
  struct Page {
    uintptr_t number = 0;
    int allocation = 0;
    uintptr_t begin = 0, end = 0;  // of the allocation within this page
    bool any_atomic = false, any_uninitialized = false;
    Bits read, written, atomic, uninitialized;
  };

  void mark(Page& page, uintptr_t address, size_t size, AccessKind kind) {
    size_t offset = address % kPageBytes;
    while (size > 0) {
      const size_t word = offset / 64, shift = offset % 64;
      const size_t count = size < 64 - shift ? size : 64 - shift;
      const uint64_t bits = (count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1) << shift;
      if (kind == AccessKind::kWrite) {
        page.written[word] |= bits;
      } else {
        if (kind != AccessKind::kRead) {
          page.any_atomic = true;
          page.atomic[word] |= bits;
        } else {
          page.read[word] |= bits;
        }
        if (kind != AccessKind::kAtomicStore && (bits & ~page.written[word]) != 0)
          check_initialized(page, word, bits);
      }
      offset += count;
      size -= count;
    }
  }
  void check_initialized(Page& page, size_t word, uint64_t bits) {
    const uint64_t initialized = device_memory()
                                     .initialized_word(page.number * kPageBytes + word * 64)
                                     .load(std::memory_order_relaxed);
    const uint64_t missing = bits & ~page.written[word] & ~initialized;
    if (missing != 0) {
      page.any_uninitialized = true;
      page.uninitialized[word] |= missing;
    }
  }
  const std::string* record_slowly(uintptr_t address, size_t size, AccessKind kind);
  Page* page_of(uintptr_t address);

  std::array<Page*, kCacheSize> cache_{};
  std::unordered_map<uintptr_t, Page*> by_number_;
  std::vector<std::unique_ptr<Page>> pages_;  // the first used_ are in use, the rest is kept for reuse
  size_t used_ = 0;
  bool closed_ = false;
  std::string fault_;
};

}  // namespace braid::emulated
