// A square of elements in shared memory: a block writes it by rows and reads it by columns, both without bank
// conflicts.
//
//   transposes:  tile.store(row, column, the 16 bytes that a lane has loaded), __syncthreads(),
//                then tile.element(k, row)
//
// Element (row, column) lies in pack column / pack of its row. The packs of a row are permuted by an
// exclusive or with row / pack. So lanes that read the same column of rows `pack` apart use different banks,
// and a row needs no padding.
#pragma once

#include <cstdint>

#include "runtime/device/pack.h"
#include "runtime/device/shared_memory.h"

namespace braid::rt::device {

// Rows of at least 128 bytes where a pack has 16.
__host__ __device__ constexpr int tile_side(int pack) { return 8 * pack > 32 ? 8 * pack : 32; }

// Tiles that cover `others` planes of a x b elements.
__host__ __device__ constexpr int64_t tile_count(int64_t others, int64_t a, int64_t b, int pack) {
  const int64_t side = tile_side(pack);
  return others * ((a + side - 1) / side) * ((b + side - 1) / side);
}

// A tile in the block's memory for kSize packs.
template <class T, int pack>
struct Tile {
  static constexpr int kSide = tile_side(pack), kPacks = kSide / pack, kSize = kSide * kPacks;
  Pack<T, pack>* packs;

  // `column` counts packs.
  __device__ void store(int row, int column, const Pack<T, pack>& values) const {
    store_pack(packs[place_of(row, column)].values, values);
  }
  // `column` counts elements.
  __device__ T element(int row, int column) const {
    return packs[place_of(row, column / pack)].values[column % pack];
  }

 private:
  static __device__ int place_of(int row, int column) {
    return row * kPacks + (column ^ (row / pack % kPacks));
  }
};

}  // namespace braid::rt::device
