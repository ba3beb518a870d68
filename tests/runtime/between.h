// Random numbers of the tests of kernels.
#pragma once

#include <cstdint>
#include <random>

namespace braid::rt {

using Random = std::mt19937_64;

// From `low` to `high`, both included.
inline int64_t between(Random& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

}  // namespace braid::rt
