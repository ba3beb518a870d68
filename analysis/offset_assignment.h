// Offsets for blocks with sizes and lifetimes, so that no two that are alive at once share bytes (dynamic
// storage allocation).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace braid::analysis {

struct Block {
  std::int64_t bytes = 0;
  int first = 0;  // steps, both inclusive
  int last = 0;
};

struct Assignment {
  std::vector<std::int64_t> offsets;  // multiples of the alignment, one per block
  std::int64_t bytes = 0;             // end of the highest block, rounded up to the alignment
};

// Largest block first, each into the tightest gap between those alive at the same time. O(n^2) at worst.
Assignment assign_largest_first(std::span<const Block> blocks, std::int64_t alignment);
// In order of time, like an allocator with a best-fit free list. O(n log n).
Assignment assign_by_time(std::span<const Block> blocks, std::int64_t alignment);
// The most bytes alive at once, with every block rounded up to the alignment: no assignment needs less.
std::int64_t most_alive(std::span<const Block> blocks, std::int64_t alignment);
// Places the longest lifetimes first, each block as low as possible. Then tries up to `rounds` times again,
// with the blocks that ended above most_alive moved forward a little ("squeaky wheel" optimisation, Joslin
// and Clements, 1999). Does the same beginning with the largest areas (bytes times steps). Returns the best.
// O(pairs alive at once) a round.
Assignment assign_troubled_first(std::span<const Block> blocks, std::int64_t alignment, int rounds);
// Returns the better of by-time and largest-first; only the former for more than `exact_limit` blocks. If the
// better one is above most_alive, a `thorough` search also tries troubled-first.
Assignment assign_offsets(std::span<const Block> blocks, std::int64_t alignment, std::int64_t exact_limit,
                          bool thorough = false);

// User error 546 if the sum overflows int64.
std::int64_t checked_add(std::int64_t a, std::int64_t b);
std::int64_t round_up(std::int64_t bytes, std::int64_t alignment);

}  // namespace braid::analysis
