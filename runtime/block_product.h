// Products of f32 rows by weights of 4 or 8 bits that are quantised in blocks and stay packed in memory: the
// extern kernel `block_product`. The bits are the same on every processor and for every number of threads.
//
//   y[r, c] = sum over k of x[r, k] * (q[c, k] - zero[c, k / block]) * scale[c, k / block]
//
// Element (c, k) of the weights lies in byte k * bits / 8 of row c, the first of two in the low bits. The sum
// is made of 16 sums, each f32 and rounded after every operation:
//
//   group   4 bits: 32 elements; lane l adds x[2l] * d[2l] + x[2l + 1] * d[2l + 1], where d = q - zero
//                   is exact
//           8 bits: 16 elements; lane l adds x[l] * d[l]
//   block   the groups of a block in order, beginning with 0; times the scale it is added to the lane's sum
//   row     lanes l and l + 8, then l + 4, l + 2, l + 1
//
// Columns beyond k count as 0.
#pragma once

#include <cstdint>

namespace braid::rt {

inline constexpr int64_t kBlockLanes = 16;
inline constexpr int64_t block_group(int64_t bits) { return bits == 4 ? 2 * kBlockLanes : kBlockLanes; }

struct BlockProduct {
  int64_t m = 0, n = 0, k = 0;
  int64_t bits = 4;                  // 4 or 8
  int64_t block = 32;                // a multiple of block_group(bits)
  const float* x = nullptr;          // [m, k]
  const uint8_t* weights = nullptr;  // [n, blocks * block * bits / 8]
  const float* scales = nullptr;     // [n, blocks]
  const uint8_t* zeros = nullptr;    // [n, blocks]; null: 2^(bits - 1)
  float* y = nullptr;                // [m, n]
  float* work = nullptr;             // [m, blocks * block]

  int64_t blocks() const { return (k + block - 1) / block; }
};

// Uses the kernels of this processor, on up to team_threads() threads.
void run_block_product(const BlockProduct& product);

// Columns [begin, end) of y for rows that lie in `work` as the lanes read them.
using BlockColumns = void (*)(const BlockProduct& product, int64_t begin, int64_t end);
namespace baseline {
void block_columns(const BlockProduct& product, int64_t begin, int64_t end);
}
#ifdef __x86_64__
namespace avx2 {
void block_columns(const BlockProduct& product, int64_t begin, int64_t end);
}
namespace avx512 {
void block_columns(const BlockProduct& product, int64_t begin, int64_t end);
}
#endif
// Fills `work` with the rows, padded with zeros; for 4-bit weights, each group has its even elements before
// its odd ones.
void arrange_rows(const BlockProduct& product);

}  // namespace braid::rt
