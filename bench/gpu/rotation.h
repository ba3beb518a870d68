// How many copies of inputs and outputs the steps of a timing take in turn, so that no step finds in L2 the
// data of the step before. rotation.py has the rule for PyTorch; a test holds the two against each other.
//
//   fixed + copies * rotated >= kL2Multiple * L2
//
// `fixed` is the size of the weights, which have one copy as in real use; `rotated` is that of inputs and
// outputs.
#pragma once

#include <algorithm>
#include <cstdint>

namespace braid::gpu_bundle {

inline constexpr uint64_t kL2Multiple = 4;
inline constexpr uint64_t kMostCopies = 16;

// At least one copy, and no more than fit into half of the free memory. All arguments in bytes.
inline uint64_t rotation_copies(uint64_t fixed, uint64_t rotated, uint64_t l2, uint64_t free) {
  const uint64_t wanted_bytes = kL2Multiple * l2;
  const uint64_t missing = wanted_bytes > fixed ? wanted_bytes - fixed : 0;
  const uint64_t each = std::max<uint64_t>(1, rotated);
  const uint64_t wanted = (missing + each - 1) / each;
  return std::max<uint64_t>(1, std::min({wanted, kMostCopies, free / 2 / each}));
}

}  // namespace braid::gpu_bundle
