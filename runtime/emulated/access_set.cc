#include "runtime/emulated/access_set.h"

#include <algorithm>

namespace braid::emulated {

AccessSet::AccessSet() = default;

AccessSet::Page* AccessSet::page_of(uintptr_t address) {
  const uintptr_t number = address / kPageBytes;
  Page*& cached = cache_[number % kCacheSize];
  if (cached != nullptr && cached->number == number) return cached;
  Page*& known = by_number_[number];
  if (known == nullptr) {
    if (used_ == pages_.size()) pages_.push_back(std::make_unique<Page>());
    known = pages_[used_++].get();
    known->number = number;
    known->any_atomic = known->any_uninitialized = false;
    known->read = known->written = known->atomic = known->uninitialized = Bits{};
    known->allocation = device_memory().find(address);
    known->begin = known->end = 0;
    if (known->allocation >= 0) {
      const Allocation& allocation = device_memory().at(known->allocation);
      if (!allocation.freed) {
        known->begin = std::max(allocation.begin, number * kPageBytes);
        known->end = std::min(allocation.end(), (number + 1) * kPageBytes);
      }
    }
  }
  return cached = known;
}

const std::string* AccessSet::record_slowly(uintptr_t address, size_t size, AccessKind kind) {
  if (closed_) return &fault_;
  const uintptr_t end = address + size;
  for (uintptr_t at = address; at < end;) {
    Page* page = page_of(at);
    const uintptr_t stop = std::min(end, (page->number + 1) * kPageBytes);
    if (at < page->begin || stop > page->end) {
      const DeviceMemory& memory = device_memory();
      int index = page->allocation;
      const int before = memory.find(at - kPageBytes);  // the page behind an allocation is unowned
      if (index < 0) index = before;
      fault_ = kind == AccessKind::kRead ? "read" : kind == AccessKind::kWrite ? "write" : "atomic access";
      fault_ += " of " + std::to_string(size) + " bytes ";
      if (index < 0) {
        fault_ += "outside any allocation";
      } else if (memory.at(index).freed) {
        fault_ += "in freed memory: " + memory.at(index).describe() + ", offset " +
                  std::to_string(address - memory.at(index).begin);
      } else {
        fault_ += "out of bounds: " + memory.at(index).describe() + ", offset " +
                  std::to_string(static_cast<int64_t>(address - memory.at(index).begin));
      }
      return &fault_;
    }
    mark(*page, at, stop - at, kind);
    at = stop;
  }
  return nullptr;
}

AccessRanges AccessSet::finish() {
  AccessRanges result;
  std::sort(pages_.begin(), pages_.begin() + static_cast<std::ptrdiff_t>(used_),
            [](const auto& a, const auto& b) { return a->number < b->number; });
  const auto append = [](std::vector<AccessRange>& ranges, int allocation, size_t begin, size_t end) {
    if (!ranges.empty() && ranges.back().allocation == allocation && ranges.back().end == begin)
      ranges.back().end = end;
    else
      ranges.push_back({allocation, begin, end});
  };
  for (size_t i = 0; i < used_; ++i) {
    const Page& page = *pages_[i];
    if (page.allocation < 0) continue;
    const uintptr_t start = page.number * kPageBytes;
    const uintptr_t allocation_begin = device_memory().at(page.allocation).begin;
    const auto collect = [&](const Bits& bits, std::vector<AccessRange>& ranges) {
      for (size_t word = 0; word < kWords; ++word) {
        uint64_t rest = bits[word];
        const size_t offset = start + word * 64 - allocation_begin;
        while (rest != 0) {
          const int first = __builtin_ctzll(rest);
          const uint64_t filled = ~(rest >> first);
          const int length = filled == 0 ? 64 : __builtin_ctzll(filled);
          append(ranges, page.allocation, offset + first, offset + first + length);
          if (first + length >= 64) break;
          rest &= ~uint64_t{0} << (first + length);
        }
      }
    };
    collect(page.read, result.reads);
    collect(page.written, result.writes);
    if (page.any_atomic) collect(page.atomic, result.atomics);
    if (page.any_uninitialized) collect(page.uninitialized, result.uninitialized);
    for (size_t word = 0; word < kWords; ++word) {
      const uint64_t bits = page.written[word] | page.atomic[word];
      if (bits != 0)
        device_memory().initialized_word(start + word * 64).fetch_or(bits, std::memory_order_relaxed);
    }
  }
  by_number_.clear();
  cache_ = {};
  used_ = 0;
  return result;
}

}  // namespace braid::emulated
