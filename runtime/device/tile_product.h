// A tile of a product of matrices of 16-bit elements on tensor cores, with sums in float.
//
//   const ResultSizes sizes{m, n};
//   const TilePlace place = tile_place<LargeTile>(sizes);       of this block, with blocks by tile_grid
//   tile_product<LargeTile>(RowsAlongDepth<__half>{a, lda, m},  a: [m, k]
//                           RowsAcrossDepth<__half>{b, ldb, n}, b: [k, n]
//                           k, place, sizes, [&](int row, int column, const float (&sums)[8]) { ... });
//
// A block computes one tile of results and calls the last argument once for each 8 neighbouring results of a
// row. The number of columns is a multiple of 8. All threads of the block come here together, once.
//
// "Lines" are the rows of a and the columns of b. The depth is the dimension of the sum, taken in steps of
// kTileDepth. A loader brings the operands' lines of a step to shared memory by cp.async: chunks of 16 bytes,
// swizzled (runtime/device/swizzle.h), with zeros beyond the last element of the depth. `stages` tiles of
// each operand are in flight or in use; one barrier per step separates them:
//
//   step t:  fragments of t, second half      tile t has been waited for in step t - 1
//            copy tile t + stages - 1          in the place of t - 1, which all have read
//            multiply first half
//            wait for tile t + 1, barrier
//            fragments of t + 1, first half
//            multiply second half
//
// Sums pass through shared memory once more, so that 8 neighbours of a row meet in one thread. The order of
// a sum is fixed: it depends neither on the other sizes nor on the tile's.
//
// Sources: the multistage main loop of CUTLASS (MmaMultistage), PTX ISA.
#pragma once

#include <cstdint>

#include "runtime/device/async_copy.h"
#include "runtime/device/ldmatrix.h"
#include "runtime/device/mma.h"
#include "runtime/device/pack.h"
#include "runtime/device/product_tile.h"
#include "runtime/device/swizzle.h"

namespace braid::rt::device {

struct ResultSizes {
  int rows, columns;
};
struct TilePlace {
  int row, column;  // of the first result
  int matrix;       // of a batch
};

// Successive blocks take the tiles of kGroup rows of tiles column by column, so that they share operands in
// the second-level cache.
template <class Tile>
__device__ TilePlace tile_place(ResultSizes sizes) {
  constexpr int kGroup = 8;
  const int down = (sizes.rows + Tile::kRows - 1) / Tile::kRows;
  const int across = (sizes.columns + Tile::kColumns - 1) / Tile::kColumns;
  const int block = static_cast<int>(blockIdx.x), at = block % (down * across);
  const int first = at / (kGroup * across) * kGroup, height = min(kGroup, down - first);
  const int in_group = at % (kGroup * across);
  return {(first + in_group % height) * Tile::kRows, in_group / height * Tile::kColumns,
          block / (down * across)};
}

// -----------------------------------------------------------------------------------------------------------
// operands, and how their tiles are copied

// Element k of line i is data[i * stride + k]. data, stride and the depth are multiples of 8 elements.
template <class T>
struct RowsAlongDepth {
  using Element = T;
  static constexpr bool kAlongDepth = true;
  const T* data;
  int64_t stride;
  int lines;
};
// Element k of line i is data[k * stride + i]. data, stride and `lines` are multiples of 8 elements.
template <class T>
struct RowsAcrossDepth {
  using Element = T;
  static constexpr bool kAlongDepth = false;
  const T* data;
  int64_t stride;
  int lines;
};

// The windows of a convolution over images of two dimensions, channels last: line i is the window at position
// (i / out[1] % out[0], i % out[1]) of image i / (out[0] * out[1]), and its elements are rows of taps, taps
// and channels. Elements beside the image are 0. data, steps and channels are multiples of 8.
template <class T>
struct ImageWindows {
  using Element = T;
  static constexpr bool kAlongDepth = true;
  const T* data;
  int lines, channels;
  int image, step[2];   // elements to the next image, row and column
  int size[2], out[2];  // rows and columns of images and results
  int taps[2], stride[2], dilation[2], pad[2];
};

// Copies one tile after another along the depth.
template <class Operand, int lines, int threads>
class TileCopier;

template <class T, int lines, int threads>
class TileCopier<RowsAlongDepth<T>, lines, threads> {
  static constexpr int kChunks = kTileDepth / kChunkElements, kLinesAtOnce = threads / kChunks;
  static constexpr int kTurns = (lines + kLinesAtOnce - 1) / kLinesAtOnce;
  static_assert(threads % kChunks == 0 && kLinesAtOnce % 8 == 0);

 public:
  // Lines beyond the last one are copies of it: their results are dropped.
  __device__ TileCopier(const RowsAlongDepth<T>& from, int first_line, int depth) {
    const int chunk = static_cast<int>(threadIdx.x) % kChunks;
    line_ = static_cast<int>(threadIdx.x) / kChunks;
    place_ = swizzled<kChunks>(line_, chunk);
    left_ = depth - chunk * kChunkElements;
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      const int line = min(first_line + line_ + i * kLinesAtOnce, from.lines - 1);
      from_[i] = from.data + line * from.stride + chunk * kChunkElements;
    }
  }
  __device__ void copy(Chunk* tile) {
    const int valid = left_ > 0 ? 16 : 0;
    left_ -= kTileDepth;
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      if (lines % kLinesAtOnce == 0 || line_ + i * kLinesAtOnce < lines)
        cp_async_zfill<16>(tile + place_ + i * kLinesAtOnce * kChunks, from_[i], valid);
      from_[i] += kTileDepth;
    }
  }

 private:
  int line_, place_;  // of the thread's first chunk
  int left_;          // elements of the depth from the next chunk on
  const T* from_[kTurns];
};

template <class T, int lines, int threads>
class TileCopier<RowsAcrossDepth<T>, lines, threads> {
  static constexpr int kChunks = lines / kChunkElements, kRowsAtOnce = threads / kChunks;
  static constexpr int kTurns = (kTileDepth + kRowsAtOnce - 1) / kRowsAtOnce;
  static_assert(threads % kChunks == 0 && (kTurns == 1 || kTileDepth % kRowsAtOnce == 0));
  static_assert(kRowsAtOnce % 8 == 0 || kChunks >= 8);

 public:
  __device__ TileCopier(const RowsAcrossDepth<T>& from, int first_line, int depth) {
    const int chunk = static_cast<int>(threadIdx.x) % kChunks, row = static_cast<int>(threadIdx.x) / kChunks;
    const int line = first_line + chunk * kChunkElements;
    place_ = swizzled<kChunks>(row, chunk);
    left_ = line < from.lines ? depth - row : 0;
    takes_part_ = kRowsAtOnce <= kTileDepth || row < kTileDepth;
    from_ = from.data + row * from.stride + line;
    step_ = (kTurns == 1 ? kTileDepth : kRowsAtOnce) * from.stride;
  }
  __device__ void copy(Chunk* tile) {
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      if (takes_part_)
        cp_async_zfill<16>(tile + (place_ ^ (i * kRowsAtOnce % 8)) + i * kRowsAtOnce * kChunks, from_,
                           i * kRowsAtOnce < left_ ? 16 : 0);
      from_ += step_;
    }
    left_ -= kTileDepth;
  }

 private:
  int place_;  // of the thread's first chunk
  int left_;   // rows of the depth from the thread's next one on; not positive beyond the last line
  bool takes_part_;
  int64_t step_;  // elements to the thread's next row
  const T* from_;
};

template <class T, int lines, int threads>
class TileCopier<ImageWindows<T>, lines, threads> {
  static constexpr int kChunks = kTileDepth / kChunkElements, kLinesAtOnce = threads / kChunks;
  static constexpr int kTurns = (lines + kLinesAtOnce - 1) / kLinesAtOnce;
  static_assert(threads % kChunks == 0 && kLinesAtOnce % 8 == 0);

 public:
  // Lines beyond the last one are copies of it.
  __device__ TileCopier(const ImageWindows<T>& from, int first_line, int) : from_(from) {
    const int chunk = static_cast<int>(threadIdx.x) % kChunks;
    line_ = static_cast<int>(threadIdx.x) / kChunks;
    place_ = swizzled<kChunks>(line_, chunk);
    channel_ = chunk * kChunkElements;
    find_tap();
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      const int line = min(first_line + line_ + i * kLinesAtOnce, from.lines - 1);
      const int row = line / from.out[1] % from.out[0] * from.stride[0] - from.pad[0];
      const int column = line % from.out[1] * from.stride[1] - from.pad[1];
      offset_[i] = line / from.out[1] / from.out[0] * from.image + row * from.step[0] + column * from.step[1];
      inside_[i] = taps_inside(row, 0) | taps_inside(column, 1) << kColumnBits;
    }
  }
  __device__ void copy(Chunk* tile) {
    const int moved = tap_row_ * from_.dilation[0] * from_.step[0] +
                      tap_column_ * from_.dilation[1] * from_.step[1] + channel_;
    const unsigned tap = 1u << tap_row_ | 1u << (tap_column_ + kColumnBits);
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      if (lines % kLinesAtOnce == 0 || line_ + i * kLinesAtOnce < lines)
        cp_async_zfill<16>(tile + place_ + i * kLinesAtOnce * kChunks, from_.data + offset_[i] + moved,
                           (inside_[i] & tap) == tap ? 16 : 0);
    }
    channel_ += kTileDepth;
    find_tap();
  }

 private:
  // A step crosses at most kTileDepth / kChunkElements taps, so rows of taps stay below kColumnBits.
  static constexpr int kColumnBits = 16;
  static_assert(kMostTaps[0] + kTileDepth / kChunkElements < kColumnBits && kMostTaps[1] <= 32 - kColumnBits);

  // Which taps of the window are inside the image along a dimension, as bits.
  __device__ unsigned taps_inside(int first, int dimension) const {
    unsigned bits = 0;
    for (int t = 0; t < from_.taps[dimension]; ++t) {
      if (static_cast<unsigned>(first + t * from_.dilation[dimension]) <
          static_cast<unsigned>(from_.size[dimension]))
        bits |= 1u << t;
    }
    return bits;
  }
  // A chunk has one tap, because channels are a multiple of its elements.
  __device__ void find_tap() {
#pragma unroll 1
    while (channel_ >= from_.channels) {
      channel_ -= from_.channels;
      if (++tap_column_ == from_.taps[1]) tap_column_ = 0, ++tap_row_;
    }
  }

  const ImageWindows<T> from_;
  int line_, place_;                            // of the thread's first chunk
  int tap_row_ = 0, tap_column_ = 0, channel_;  // of the next chunk; beyond the last tap no bit of it is set
  int offset_[kTurns];                          // of each window
  unsigned inside_[kTurns];
};

// -----------------------------------------------------------------------------------------------------------
// fragments

// Loads 16 lines by kHalfDepth elements of the depth at a time, four matrices of 8 x 8. After the first one,
// mma_sync takes for its a (`lines_first`) the next 8 lines, for two of its b the next 8 of the depth.
template <bool along_depth, int lines, int lines_of_warp, bool lines_first>
class FragmentLoader {
  static constexpr int kChunks = (along_depth ? kTileDepth : lines) / kChunkElements;
  static_assert((lines_of_warp & (lines_of_warp - 1)) == 0);

 public:
  // From `first_line`, a multiple of lines_of_warp, on.
  __device__ explicit FragmentLoader(int first_line) {
    const int lane = static_cast<int>(threadIdx.x) % 32, low = lane / 8 % 2, high = lane / 16;
    const int line_half = lines_first ? low : high, depth_half = lines_first ? high : low;
    place_ = along_depth
                 ? swizzled<kChunks>(first_line + line_half * 8 + lane % 8, depth_half)
                 : swizzled<kChunks>(depth_half * 8 + lane % 8, first_line / kChunkElements + line_half);
  }
  // Those from line 16 * i and element kHalfDepth * half on. Both are bits of their own in row or chunk, and
  // the swizzle exclusive-ors only bits of the chunk.
  __device__ void load(uint32_t* registers, const Chunk* tile, int i, int half) const {
    if constexpr (along_depth)
      ldmatrix<4>(registers, tile + (place_ ^ (2 * half)) + 16 * i * kChunks);
    else
      ldmatrix<4, true>(registers, tile + (place_ ^ (2 * i)) + 16 * half * kChunks);
  }

 private:
  int place_;
};

template <class Tile>
struct Fragments {
  MmaA a[Tile::kWarpRows / 16];
  MmaB b[Tile::kWarpColumns / 8];
};

// -----------------------------------------------------------------------------------------------------------
// results

// The place of 4 floats, half `half` of the 8 columns `eight`, in a strip of 16 rows. Neither the stores of
// two columns by 16 lanes nor the loads of 4 by 8 lanes meet bank conflicts.
template <int columns>
__device__ constexpr int place_of_sums(int row, int eight, int half) {
  if constexpr (columns == 32)
    return row * 8 + ((eight + 4 * half) ^ (row % 4 + row % 2 * 4));
  else
    return row * (columns / 4) + half * (columns / 8) + (eight ^ (2 * (row % 4) + half));
}

// Hands the sums of a warp on, 16 rows at a time, through the warp's own part of shared memory.
template <class Tile, class Store>
__device__ void store_sums(const MmaSums<float> (&sums)[Tile::kWarpRows / 16][Tile::kWarpColumns / 8],
                           Chunk* shared, int first_row, int first_column, ResultSizes sizes,
                           const Store& store) {
  constexpr int kEights = Tile::kWarpColumns / 8, kRowsAtOnce = 32 / kEights;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  float* strip =
      reinterpret_cast<float*>(shared) + warp * (Tile::kStripBytes / static_cast<int>(sizeof(float)));
#pragma unroll
  for (int i = 0; i < Tile::kWarpRows / 16; ++i) {
    __syncwarp();
#pragma unroll
    for (int j = 0; j < kEights; ++j)
#pragma unroll
      for (int upper = 0; upper < 2; ++upper) {
        const int place = place_of_sums<Tile::kWarpColumns>(lane / 4 + 8 * upper, j, lane % 4 / 2);
        store_pack<float, 2>(strip + place * 4 + lane % 2 * 2,
                             {sums[i][j].values[2 * upper], sums[i][j].values[2 * upper + 1]});
      }
    __syncwarp();
#pragma unroll
    for (int turn = 0; turn < 16 / kRowsAtOnce; ++turn) {
      const int in_strip = turn * kRowsAtOnce + lane / kEights, eight = lane % kEights;
      float values[kChunkElements];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Pack<float, 4> four =
            load_pack<4>(strip + place_of_sums<Tile::kWarpColumns>(in_strip, eight, half) * 4);
#pragma unroll
        for (int e = 0; e < 4; ++e) values[4 * half + e] = four.values[e];
      }
      const int row = first_row + 16 * i + in_strip, column = first_column + 8 * eight;
      if (row < sizes.rows && column < sizes.columns) store(row, column, values);
    }
  }
}

// -----------------------------------------------------------------------------------------------------------

template <class Tile, class A, class B, class Store>
__device__ void tile_product(const A& a, const B& b, int depth, TilePlace place, ResultSizes sizes,
                             const Store& store) {
  using Element = typename A::Element;
  constexpr int kHalves = kTileDepth / kHalfDepth;
  BRAID_DYNAMIC_SHARED(Chunk, shared);
  Chunk *a_tiles = shared, *b_tiles = shared + Tile::kStages * Tile::kChunksOfA;
  TileCopier<A, Tile::kRows, Tile::kThreads> of_a(a, place.row, depth);
  TileCopier<B, Tile::kColumns, Tile::kThreads> of_b(b, place.column, depth);
  const auto copy = [&](int stage) {
    of_a.copy(a_tiles + stage * Tile::kChunksOfA);
    of_b.copy(b_tiles + stage * Tile::kChunksOfB);
  };

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int row = warp / Tile::kAcross * Tile::kWarpRows, column = warp % Tile::kAcross * Tile::kWarpColumns;
  const FragmentLoader<A::kAlongDepth, Tile::kRows, Tile::kWarpRows, true> rows(row);
  const FragmentLoader<B::kAlongDepth, Tile::kColumns, Tile::kWarpColumns, false> columns(column);
  Fragments<Tile> fragments[2];
  const auto load = [&](int half, int stage) {
    Fragments<Tile>& to = fragments[half];
#pragma unroll
    for (int i = 0; i < Tile::kWarpRows / 16; ++i)
      rows.load(to.a[i].registers, a_tiles + stage * Tile::kChunksOfA, i, half);
#pragma unroll
    for (int j = 0; j < Tile::kWarpColumns / 16; ++j) {
      uint32_t two[4];
      columns.load(two, b_tiles + stage * Tile::kChunksOfB, j, half);
      to.b[2 * j] = {{two[0], two[1]}};
      to.b[2 * j + 1] = {{two[2], two[3]}};
    }
  };
  MmaSums<float> sums[Tile::kWarpRows / 16][Tile::kWarpColumns / 8] = {};
  const auto multiply = [&](int half) {
#pragma unroll
    for (int i = 0; i < Tile::kWarpRows / 16; ++i)
#pragma unroll
      for (int j = 0; j < Tile::kWarpColumns / 8; ++j)
        mma_sync<Element>(sums[i][j], fragments[half].a[i], fragments[half].b[j]);
  };

  const int steps = (depth + kTileDepth - 1) / kTileDepth;
#pragma unroll
  for (int t = 0; t + 1 < Tile::kStages; ++t) {
    if (t < steps) copy(t);
    cp_async_commit_group();
  }
  int stage = 0, free_stage = Tile::kStages - 1;
  cp_async_wait_group<Tile::kStages - 2>();
  __syncthreads();
  if (steps > 0) load(0, stage);
  for (int t = 0; t < steps; ++t) {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      if (half + 1 < kHalves) {
        load(half + 1, stage);
      } else {
        cp_async_wait_group<Tile::kStages - 2>();
        __syncthreads();
        free_stage = stage;
        stage = stage + 1 == Tile::kStages ? 0 : stage + 1;
        if (t + 1 < steps) load(0, stage);
      }
      if (half == 0) {
        if (t + Tile::kStages - 1 < steps) copy(free_stage);
        cp_async_commit_group();
      }
      multiply(half);
    }
  }
  // All copies have ended and all tiles are read: the barrier of the last step lies between.
  store_sums<Tile>(sums, shared, place.row + row, place.column + column, sizes, store);
}

}  // namespace braid::rt::device
