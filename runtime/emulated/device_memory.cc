#include "runtime/emulated/device_memory.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

namespace braid::emulated {
namespace {

size_t round_up(size_t value, size_t to) { return (value + to - 1) / to * to; }

}  // namespace

uintptr_t device_region_begin = uintptr_t{1} << 63;

std::string Allocation::describe() const {
  static const char* const names[] = {"cudaMalloc", "ncclMemAlloc", "cudaHostAlloc"};
  return std::string(names[static_cast<int>(kind)]) + " #" + std::to_string(ordinal) + " of rank " +
         std::to_string(device) + " (" + std::to_string(size) + " bytes)";
}

DeviceMemory::DeviceMemory() {
  if (addresses() == nullptr) throw std::bad_alloc();
  base_ = addresses()->device;
  next_ = base_ + kPageBytes;
  device_region_begin = base_;
  initialized_ = static_cast<std::atomic<uint64_t>*>(addresses()->written);
  page_owner_ = static_cast<std::atomic<uint32_t>*>(addresses()->page_owners);
}

void* DeviceMemory::allocate(size_t size, int device, AllocationKind kind, size_t device_limit,
                             std::string label) {
  std::lock_guard lock(mutex_);
  if (size == 0) size = 1;
  const size_t alignment = kind == AllocationKind::kNccl ? kRegionAlignment : kPageBytes;
  const size_t pages = round_up(size, kPageBytes);
  const int owner = kind == AllocationKind::kPinned ? -1 : device;
  if (size > device_limit || used_[owner] + pages > device_limit) return nullptr;
  uintptr_t begin = round_up(next_, alignment);
  if (begin + pages + kPageBytes <= base_ + kRegionBytes) {
    next_ = begin + pages + kPageBytes;  // an unowned page behind each allocation
  } else {
    begin = 0;
    for (auto it = reusable_.lower_bound(pages); it != reusable_.end(); ++it) {
      if (it->second % alignment != 0) continue;
      begin = it->second;
      reusable_.erase(it);
      break;
    }
    if (begin == 0) return nullptr;
  }
  used_[owner] += pages;
  Allocation allocation;
  allocation.begin = begin;
  allocation.size = size;
  allocation.device = device;
  allocation.ordinal = ordinals_[{device, kind == AllocationKind::kPinned}]++;
  allocation.kind = kind;
  allocation.label = std::move(label);
  allocations_.push_back(allocation);
  for (uintptr_t page = begin; page < begin + pages; page += kPageBytes)
    page_owner_[(page - base_) / kPageBytes] = static_cast<uint32_t>(allocations_.size());
  std::memset(reinterpret_cast<void*>(begin), kPoison, pages);
  for (uintptr_t word = begin; word < begin + pages; word += 64)
    initialized_word(word).store(kind == AllocationKind::kPinned ? ~uint64_t{0} : 0,
                                 std::memory_order_relaxed);
  return reinterpret_cast<void*>(begin);
}

bool DeviceMemory::free(void* pointer, AllocationKind kind) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(pointer);
  const int index = find(begin);
  std::lock_guard lock(mutex_);
  if (index < 0) return false;
  Allocation& allocation = allocations_[index];
  if (allocation.begin != begin || allocation.freed || allocation.kind != kind) return false;
  allocation.freed = true;
  const size_t pages = round_up(allocation.size, kPageBytes);
  used_[allocation.owner()] -= pages;
  reusable_.emplace(pages, begin);
  // Gives the memory back; the addresses stay readable, so that a stray access is reported, not fatal.
  madvise(reinterpret_cast<void*>(begin), pages, MADV_DONTNEED);
  return true;
}

int DeviceMemory::find(uintptr_t address) const {
  if (!contains(address)) return -1;
  return static_cast<int>(page_owner_[(address - base_) / kPageBytes].load(std::memory_order_relaxed)) - 1;
}

const Allocation& DeviceMemory::at(int index) const {
  std::lock_guard lock(mutex_);
  return allocations_[index];
}

size_t DeviceMemory::used_bytes(int device) const {
  std::lock_guard lock(mutex_);
  const auto it = used_.find(device);
  return it == used_.end() ? 0 : it->second;
}

std::vector<Allocation> DeviceMemory::live() const {
  std::lock_guard lock(mutex_);
  std::vector<Allocation> out;
  for (const Allocation& allocation : allocations_)
    if (!allocation.freed) out.push_back(allocation);
  return out;
}

void DeviceMemory::restart_ordinals() {
  std::lock_guard lock(mutex_);
  ordinals_.clear();
}

void DeviceMemory::forget(uintptr_t begin, uintptr_t end) {
  for (uintptr_t at = begin; at < end;) {
    const uintptr_t word = at / 64 * 64, stop = word + 64 < end ? word + 64 : end;
    const uint64_t below = at - word == 0 ? 0 : ~uint64_t{0} >> (64 - (at - word));
    const uint64_t mask = (stop - word == 64 ? ~uint64_t{0} : (uint64_t{1} << (stop - word)) - 1) & ~below;
    if ((initialized_word(word).load(std::memory_order_relaxed) & mask) != 0) {
      std::memset(reinterpret_cast<void*>(at), kPoison, stop - at);
      initialized_word(word).fetch_and(~mask, std::memory_order_relaxed);
    }
    at = stop;
  }
}

DeviceMemory& device_memory() {
  static DeviceMemory* memory = new DeviceMemory;
  return *memory;
}

}  // namespace braid::emulated
