// Vector clocks over logical threads: every stream and every host thread is one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace braid::emulated {

enum class LogicalThread : uint32_t {};

// The number of operations of each logical thread that are known to have finished.
class VectorClock {
 public:
  uint32_t operator[](LogicalThread thread) const {
    const size_t i = static_cast<size_t>(thread);
    return i < counts_.size() ? counts_[i] : 0;
  }
  void set(LogicalThread thread, uint32_t count) {
    const size_t i = static_cast<size_t>(thread);
    if (i >= counts_.size()) counts_.resize(i + 1);
    counts_[i] = count;
  }
  void join(const VectorClock& other) {
    if (counts_.size() < other.counts_.size()) counts_.resize(other.counts_.size());
    for (size_t i = 0; i < other.counts_.size(); ++i) counts_[i] = std::max(counts_[i], other.counts_[i]);
  }
  void meet(const VectorClock& other) {
    counts_.resize(std::min(counts_.size(), other.counts_.size()));
    for (size_t i = 0; i < counts_.size(); ++i) counts_[i] = std::min(counts_[i], other.counts_[i]);
  }

 private:
  std::vector<uint32_t> counts_;
};

}  // namespace braid::emulated
