#include "python/result_pool.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

namespace braid::python {
namespace {

constexpr std::size_t kAlignment = 64;
// The C library keeps smaller blocks itself.
constexpr std::size_t kLeast = std::size_t{64} << 10;

}  // namespace

void ResultPool::Free::operator()(void* block) const { std::free(block); }

std::shared_ptr<void> ResultPool::allocate(std::size_t bytes, std::shared_ptr<const void> keep) {
  std::size_t size = std::max((bytes + kAlignment - 1) / kAlignment, std::size_t{1}) * kAlignment;
  if (size < kLeast) {
    void* memory = std::aligned_alloc(kAlignment, size);
    if (memory == nullptr) throw std::bad_alloc();
    return {memory, [keep = std::move(keep)](void* block) { std::free(block); }};
  }
  Block block = take(size, size);
  void* const memory = block.get();
  return {memory, [keep = std::move(keep), pool = weak_from_this(), size,
                   owned = std::make_shared<Block>(std::move(block))](void*) {
            if (const std::shared_ptr<ResultPool> still = pool.lock())
              still->give_back(std::move(*owned), size);
          }};
}

// Returns an unused block that is at most a quarter too large, or a new one. `size` becomes the block's.
ResultPool::Block ResultPool::take(std::size_t bytes, std::size_t& size) {
  const std::lock_guard locked(mutex_);
  const auto found = unused_.lower_bound(bytes);
  Block block;
  size = bytes;
  if (found != unused_.end() && found->first <= bytes + bytes / 4) {
    size = found->first;
    block = std::move(found->second);
    unused_.erase(found);
    unused_bytes_ -= size;
  }
  most_used_ = std::max(most_used_, used_ + size);
  if (block == nullptr) {
    while (!unused_.empty() && used_ + unused_bytes_ + size > most_used_) {
      const auto largest = std::prev(unused_.end());
      unused_bytes_ -= largest->first;
      unused_.erase(largest);
    }
    block.reset(std::aligned_alloc(kAlignment, size));
    if (block == nullptr) throw std::bad_alloc();
  }
  used_ += size;
  return block;
}

void ResultPool::give_back(Block block, std::size_t size) {
  const std::lock_guard locked(mutex_);
  used_ -= size;
  unused_bytes_ += size;
  unused_.emplace(size, std::move(block));
}

}  // namespace braid::python
