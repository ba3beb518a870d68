// A weight file in memory, as `create` gets it: held to its program at once, and to its checksums where it is
// read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace braid::rt {

class MappedWeights {
 public:
  MappedWeights() = default;  // of a program without
  // `file` must be the whole weight file of `rank` (-1: of all ranks) of the compilation `id`, `wanted`
  // bytes. 0: the program has none. Throws InstanceError.
  MappedWeights(const void* file, uint64_t bytes, uint64_t wanted, int32_t rank, uint64_t id);

  const std::byte* data() const { return file_; }
  bool holds(const void* p) const { return p >= file_ && p < file_ + bytes_; }
  // Checks the blocks that hold [begin, end), each block once, on all threads. Throws InstanceError where one
  // is damaged.
  void check(const void* begin, const void* end);
  // Checks what is left where that is little beside what was checked, or little at all.
  void check_small_rest();

 private:
  void check_blocks(uint64_t begin, uint64_t end);

  const std::byte* file_ = nullptr;
  uint64_t bytes_ = 0, tensors_end_ = 0, checked_ = 0;  // checked_: blocks
  std::vector<bool> intact_;                            // per block
  std::string name_;
};

}  // namespace braid::rt
