#include "runtime/emulated/shared_memory.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "runtime/emulated/device_memory.h"

namespace braid::emulated {

__thread SharedMemory* current_shared __attribute__((tls_model("initial-exec"))) = nullptr;
uintptr_t shared_region_begin = uintptr_t{1} << 63;

namespace {

constexpr size_t kSlotBytes = size_t{512} << 10;  // an array lies in the middle of a slot
constexpr size_t kSlots = 128;
constexpr size_t kWindowBytes = kSlots * kSlotBytes;  // of one host thread

// The windows of host threads that have ended are used again.
struct Windows {
  std::mutex mutex;
  std::vector<uintptr_t> free;
  uintptr_t next = 0;
};
Windows& windows() {
  static Windows* instance = new Windows;
  return *instance;
}

uintptr_t take_window() {
  Windows& all = windows();
  const std::lock_guard lock(all.mutex);
  if (all.next == 0) {
    all.next = shared_region_begin = addresses()->shared;
  }
  if (!all.free.empty()) {
    const uintptr_t window = all.free.back();
    all.free.pop_back();
    return window;
  }
  if (all.next + kWindowBytes > shared_region_begin + kSharedRegionBytes) {
    std::fprintf(stderr, "emulated device: more than %zu host threads run kernels\n",
                 kSharedRegionBytes / kWindowBytes);
    std::abort();
  }
  return std::exchange(all.next, all.next + kWindowBytes);
}

void give_window_back(uintptr_t window) {
  madvise(reinterpret_cast<void*>(window), kWindowBytes, MADV_DONTNEED);
  const std::lock_guard lock(windows().mutex);
  windows().free.push_back(window);
}

}  // namespace

SharedMemory::SharedMemory() : window_(take_window()) {}
SharedMemory::~SharedMemory() { give_window_back(window_); }

void SharedMemory::begin_launch(size_t dynamic_bytes, size_t limit) {
  limit_ = limit;
  arrays_.clear();
  add(nullptr, "dynamic shared memory", dynamic_bytes, 16);
}

void SharedMemory::begin_block() {
  for (Array& array : arrays_) clear(array);
}

void SharedMemory::clear(Array& array) {
  std::memset(reinterpret_cast<void*>(array.begin), kPoison, array.size);
  array.written.assign(array.size, 0);
}

// An array is aligned to what was asked for and to no more.
void SharedMemory::add(const void* site, std::string name, size_t size, size_t alignment) {
  const uintptr_t middle = window_ + arrays_.size() * kSlotBytes + kSlotBytes / 2;
  arrays_.push_back({site, std::move(name), middle + alignment, size, {}});
  clear(arrays_.back());
}

void* SharedMemory::array(const void* site, const char* name, size_t size, size_t alignment,
                          std::string* fault) {
  size_t total = size;
  for (const Array& known : arrays_) {
    if (known.site == site) return reinterpret_cast<void*>(known.begin);
    total += known.size;
  }
  const size_t of_static = total - arrays_[0].size;
  if (of_static > kDefaultSharedBytes || total > limit_ || arrays_.size() == kSlots) {
    *fault = "the block has " + std::to_string(arrays_[0].size) + " bytes of dynamic and " +
             std::to_string(of_static) + " of static shared memory; the limit is " +
             std::to_string(of_static > kDefaultSharedBytes ? kDefaultSharedBytes : limit_);
    return nullptr;
  }
  add(site, "shared array '" + std::string(name) + "'", size, alignment);
  return reinterpret_cast<void*>(arrays_.back().begin);
}

const SharedMemory::Array& SharedMemory::array_at(uintptr_t address) const {
  const size_t slot = (address - window_) / kSlotBytes;
  return arrays_[slot < arrays_.size() ? slot : 0];
}

const std::string* SharedMemory::access(uintptr_t address, size_t size, AccessKind kind,
                                        const std::string** uninitialized) {
  const size_t slot = (address - window_) / kSlotBytes;
  const char* what = kind == AccessKind::kRead    ? "read"
                     : kind == AccessKind::kWrite ? "write"
                                                  : "atomic access";
  if (slot >= arrays_.size()) {
    fault_ = std::string(what) + " of " + std::to_string(size) +
             " bytes of another block's shared memory, or of none";
    return &fault_;
  }
  Array& array = arrays_[slot];
  const size_t offset = address - array.begin;
  if (offset > array.size || size > array.size - offset) {
    fault_ = std::string(what) + " of " + std::to_string(size) + " bytes out of bounds: " + array.name +
             " (" + std::to_string(array.size) + " bytes), offset " +
             std::to_string(static_cast<int64_t>(offset));
    return &fault_;
  }
  unsigned char* written = array.written.data() + offset;
  if (kind == AccessKind::kRead || kind == AccessKind::kAtomic) {
    if (std::memchr(written, 0, size) != nullptr) *uninitialized = &array.name;
  }
  if (kind != AccessKind::kRead) std::memset(written, 1, size);
  return nullptr;
}

std::string SharedMemory::describe(uintptr_t address) const {
  const Array& array = array_at(address);
  return "byte " + std::to_string(static_cast<int64_t>(address - array.begin)) + " of " + array.name + " (" +
         std::to_string(array.size) + " bytes)";
}

}  // namespace braid::emulated
