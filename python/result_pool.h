// Memory for the results of a session's steps, reused when the caller has dropped them. Fresh memory of this
// size comes from the operating system, which clears each page at its first touch.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

namespace braid::python {

// Calls from several threads are safe. Blocks may outlive the pool.
class ResultPool : public std::enable_shared_from_this<ResultPool> {
 public:
  static std::shared_ptr<ResultPool> make() { return std::shared_ptr<ResultPool>(new ResultPool); }

  // Returns uninitialised memory, 64-byte aligned. `keep` lives as long as the block. Throws std::bad_alloc.
  std::shared_ptr<void> allocate(std::size_t bytes, std::shared_ptr<const void> keep);

 private:
  struct Free {
    void operator()(void* block) const;
  };
  using Block = std::unique_ptr<void, Free>;

  ResultPool() = default;
  Block take(std::size_t bytes, std::size_t& size);
  void give_back(Block block, std::size_t size);

  std::mutex mutex_;
  std::multimap<std::size_t, Block> unused_;  // by size
  // used_ + the bytes of unused_ never exceed most_used_, the most bytes that were used at once.
  std::size_t used_ = 0, unused_bytes_ = 0, most_used_ = 0;
};

}  // namespace braid::python
