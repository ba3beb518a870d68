// Memory for weights and for kernels' work. Private to the runtime library.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace braid::rt {

struct AlignedDelete {
  void operator()(void* p) const { std::free(p); }
};
using AlignedBytes = std::unique_ptr<std::byte, AlignedDelete>;
// Weights are streamed: with huge pages they need a thousandth of the address translations.
inline AlignedBytes aligned_bytes(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t alignment = bytes >= kHugePage ? kHugePage : 64;
  void* p =
      std::aligned_alloc(alignment, (std::max<size_t>(bytes, 1) + alignment - 1) / alignment * alignment);
  if (!p) throw std::bad_alloc();
  if (bytes >= kHugePage) ::madvise(p, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);  // may be refused
  return AlignedBytes(static_cast<std::byte*>(p));
}

}  // namespace braid::rt
