// Places of 16-byte chunks in a tile of shared memory, so that neither ldmatrix nor copies of whole rows meet
// bank conflicts.
//
//   Chunk* at = tile + swizzled<4>(row, chunk);     a tile with rows of 4 chunks, 64 bytes
//
// Shared memory has 32 banks of 4 bytes: 8 chunks. ldmatrix reads the same column of chunks in 8 successive
// rows at once. In plain rows of 8 / p chunks these are in p different groups of banks. So the column is
// exclusive-ored with the number of the row's group of p rows:
//
//   place(row, chunk) = row * chunks + (chunk ^ (row / p) % min(chunks, 8)),   p = max(1, 8 / chunks)
//
// `chunks` is a power of two. Rows that are a multiple of 8 apart have the same pattern: their distance is a
// constant.
#pragma once

#include <cstdint>

namespace braid::rt::device {

struct alignas(16) Chunk {
  uint32_t words[4];
};

template <int chunks>
__device__ constexpr int swizzled(int row, int chunk) {
  static_assert(chunks > 0 && (chunks & (chunks - 1)) == 0, "a power of two");
  constexpr int kRowsOfGroup = chunks < 8 ? 8 / chunks : 1, kColumns = chunks < 8 ? chunks : 8;
  return row * chunks + (chunk ^ (row / kRowsOfGroup % kColumns));
}

}  // namespace braid::rt::device
