// Where blocks with sizes and lifetimes lie, so that no two that live at once share bytes (dynamic storage
// allocation).
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

// Largest block first, each into the tightest gap between those that live at the same time. O(n^2) at worst.
Assignment assign_largest_first(std::span<const Block> blocks, std::int64_t alignment);
// In order of time, as an allocator with a best-fit free list would. O(n log n).
Assignment assign_by_time(std::span<const Block> blocks, std::int64_t alignment);
// The most that lives at once, every block rounded up to the alignment: no assignment needs less.
std::int64_t most_alive(std::span<const Block> blocks, std::int64_t alignment);
// The longest lives first, each as low as it goes; then again up to so many times, where those that ended
// above most_alive come a little earlier ("squeaky wheel" optimisation, Joslin and Clements, 1999). The same
// from the greatest areas (bytes times steps) on; the best of all. O(pairs that live at once) a round.
Assignment assign_troubled_first(std::span<const Block> blocks, std::int64_t alignment, int rounds);
// The better of by-time and largest-first; only the former for more than `exact_limit` blocks. Where that is
// above most_alive, a `thorough` search tries the third as well.
Assignment assign_offsets(std::span<const Block> blocks, std::int64_t alignment, std::int64_t exact_limit,
                          bool thorough = false);

// User error 546 where the sum leaves int64.
std::int64_t checked_add(std::int64_t a, std::int64_t b);
std::int64_t round_up(std::int64_t bytes, std::int64_t alignment);

}  // namespace braid::analysis
