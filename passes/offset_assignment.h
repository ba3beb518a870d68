// Where blocks with sizes and lifetimes lie, so that no two that live at once share bytes (dynamic storage
// allocation).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace braid::passes {

struct Block {
  std::int64_t bytes = 0;
  int first = 0;  // steps, both inclusive
  int last = 0;
};

struct Assignment {
  std::vector<std::int64_t> offsets;  // multiples of the alignment, one per block
  std::int64_t bytes = 0;             // end of the highest block, rounded up to the alignment
};

// Largest block first, each into the tightest gap between those that live at the same time. O(n^2) at worst.
Assignment assign_largest_first(std::span<const Block> blocks, std::int64_t alignment);
// In order of time, as an allocator with a best-fit free list would. O(n log n).
Assignment assign_by_time(std::span<const Block> blocks, std::int64_t alignment);
// The most that lives at once, every block rounded up to the alignment: no assignment needs less.
std::int64_t most_alive(std::span<const Block> blocks, std::int64_t alignment);
// From the bottom up: the lowest stretch of time that is still free takes the block of the greatest area
// (bytes times steps) that fits between its ends, or is raised to its lower neighbour (Sekiyama et al.,
// "Profile-guided memory optimization for deep neural networks", 2018). O(n^2) at worst.
Assignment assign_lowest_first(std::span<const Block> blocks, std::int64_t alignment);
// The better of by-time and largest-first; only the former for more than `exact_limit` blocks. Where that is
// above most_alive and `lowest_first` says so, the third is tried as well.
Assignment assign_offsets(std::span<const Block> blocks, std::int64_t alignment, std::int64_t exact_limit,
                          bool lowest_first = false);

// User error 546 where the sum leaves int64.
std::int64_t checked_add(std::int64_t a, std::int64_t b);
std::int64_t round_up(std::int64_t bytes, std::int64_t alignment);

}  // namespace braid::passes
