// The tiles of runtime/device/tile_product.h, for the code generator too: what a block computes and holds in
// shared memory.
#pragma once

#include <cstdint>

namespace braid::rt::device {

constexpr int kTileDepth = 32;     // elements
constexpr int kChunkElements = 8;  // of 16 bits
constexpr int kChunkBytes = 2 * kChunkElements;
constexpr int kHalfDepth = 16;  // of an mma_sync

// rows x columns results of a block; each of warps_down x warps_across warps has an equal part of them.
template <int rows, int columns, int warps_down, int warps_across, int stages = 4>
struct ProductTile {
  static constexpr int kRows = rows, kColumns = columns, kStages = stages, kAcross = warps_across;
  static constexpr int kThreads = 32 * warps_down * warps_across;
  static constexpr int kWarpRows = rows / warps_down, kWarpColumns = columns / warps_across;
  static constexpr int kChunksOfA = rows * kTileDepth / kChunkElements;  // of a stage
  static constexpr int kChunksOfB = columns * kTileDepth / kChunkElements;
  static constexpr int kStripBytes = 16 * kWarpColumns * static_cast<int>(sizeof(float));  // 16 rows of sums
  static constexpr int kStageBytes = stages * (kChunksOfA + kChunksOfB) * kChunkBytes;
  static constexpr int kStrips = warps_down * warps_across * kStripBytes;
  static constexpr int kSharedBytes = kStageBytes > kStrips ? kStageBytes : kStrips;  // given at the launch
  static_assert(kWarpRows % 16 == 0 && kWarpColumns % 32 == 0 && stages >= 2);
};
using LargeTile = ProductTile<128, 128, 2, 2>;
using TallTile = ProductTile<128, 64, 2, 1>;  // for few columns, as first layers have
using SmallTile = ProductTile<64, 64, 1, 2>;
// For the rows of a decoder's step, which streams weights: many blocks with many bytes in flight.
using FlatTile = ProductTile<16, 64, 1, 2, 8>;

// The number of blocks for so many matrices of results.
template <class Tile>
constexpr int64_t tile_grid(int64_t rows, int64_t columns, int64_t matrices = 1) {
  return matrices * ((rows + Tile::kRows - 1) / Tile::kRows) *
         ((columns + Tile::kColumns - 1) / Tile::kColumns);
}

// The most taps of a convolution's window along its rows and columns.
constexpr int kMostTaps[2] = {11, 16};

}  // namespace braid::rt::device
