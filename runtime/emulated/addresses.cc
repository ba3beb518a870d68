#include "runtime/emulated/addresses.h"

#include <sys/mman.h>

#include <cstdio>

namespace braid::emulated {
namespace {

constexpr size_t kDeviceBytes = kRegionBytes + kRegionAlignment;
constexpr size_t kWrittenBytes = kRegionBytes / 8;
constexpr size_t kOwnerBytes = kRegionBytes / kPageBytes * sizeof(uint32_t);

const Addresses* reserve() {
  constexpr size_t kAll = kDeviceBytes + kWrittenBytes + kOwnerBytes + kSharedRegionBytes;
  void* all = mmap(nullptr, kAll, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) {
    std::fprintf(stderr,
                 "emulated device: cannot reserve %zu GiB of addresses; is there a limit (ulimit -v)?\n",
                 kAll >> 30);
    return nullptr;
  }
  auto* next = static_cast<char*>(all);
  const auto take = [&](size_t bytes) {
    char* begin = next;
    next += bytes;
    return begin;
  };
  static Addresses reserved;
  reserved.written = take(kWrittenBytes);
  reserved.page_owners = take(kOwnerBytes);
  reserved.shared = reinterpret_cast<uintptr_t>(take(kSharedRegionBytes));
  const auto device = reinterpret_cast<uintptr_t>(take(kDeviceBytes));
  reserved.device = (device + kRegionAlignment - 1) / kRegionAlignment * kRegionAlignment;
  return &reserved;
}

}  // namespace

const Addresses* addresses() {
  static const Addresses* const reserved = reserve();
  return reserved;
}

}  // namespace braid::emulated
