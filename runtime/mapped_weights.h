// A weight file in memory, as passed to `create`: checked against its program at once, and against its
// checksums where it is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace braid::rt {

class MappedWeights {
 public:
  MappedWeights() = default;  // for a program without weights
  // `file` must be the complete weight file, with `wanted` bytes, of `rank` (-1: of all ranks) and
  // compilation `id`. If `wanted` is 0, the program has none. Throws InstanceError.
  MappedWeights(const void* file, uint64_t bytes, uint64_t wanted, int32_t rank, uint64_t id);

  const std::byte* data() const { return file_; }
  bool holds(const void* p) const { return p >= file_ && p < file_ + bytes_; }
  // Checks the blocks that hold [begin, end), each block once, on all threads. Throws InstanceError if one is
  // damaged.
  void check(const void* begin, const void* end);
  // Checks the remaining blocks if they are few, absolutely or compared to those already checked.
  void check_small_rest();

 private:
  void check_blocks(uint64_t begin, uint64_t end);

  const std::byte* file_ = nullptr;
  uint64_t bytes_ = 0, tensors_end_ = 0, checked_ = 0;  // checked_: blocks
  std::vector<bool> intact_;                            // per block
  std::string name_;
};

}  // namespace braid::rt
