// Random numbers of the tests of kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace braid::rt {

using Random = std::mt19937_64;

// From `low` to `high`, both included.
inline int64_t between(Random& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

// So many numbers from -1 to 1.
inline std::vector<float> random_floats(Random& random, int64_t count) {
  std::vector<float> out(static_cast<size_t>(count));
  for (float& x : out) x = std::uniform_real_distribution<float>(-1, 1)(random);
  return out;
}

}  // namespace braid::rt
