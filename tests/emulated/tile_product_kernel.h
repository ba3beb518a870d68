// The kernel of tile_product.h. A block of 2 x 2 warps makes 32 x 32 elements of c; a warp, 16 x 16. Tiles
// of a and b have 32 rows of 64 bytes, whatever the type: fragments are the same in bytes.
#pragma once

#include "runtime/cuda_program.h"
#include "runtime/device/async_copy.h"
#include "runtime/device/ldmatrix.h"
#include "runtime/device/mma.h"
#include "runtime/device/packed_half.h"
#include "tests/emulated/tile_product.h"

// Named as those of generated programs, for scripts/kernel_cards.py.
namespace braid_cuda_tile_product {

using namespace braid::rt::device;

constexpr int kSide = 32, kRowBytes = 64, kChunkBytes = 16, kChunks = kRowBytes / kChunkBytes;
constexpr int kStages = 2, kThreads = 128, kRowsOfWarp = 16, kStepBytes = 32;

struct alignas(16) Chunk {
  uint32_t words[4];
};
struct Operand {
  void* data;
  int rows, columns, stride;
};

// The place of a chunk in a tile: 8 rows of the same column of chunks lie in different banks.
__device__ inline int place_of(int row, int chunk, bool swizzle) {
  return row * kChunks + (swizzle ? chunk ^ (row / 2 % kChunks) : chunk);
}

template <class T, int bytes, Mutation mutation>
__device__ void copy_tile(Chunk* tile, const Operand& from, int first_row, int first_column) {
  constexpr int kSize = static_cast<int>(sizeof(T)), kParts = kRowBytes / bytes;
#pragma unroll
  for (int i = 0; i < kSide * kParts / kThreads; ++i) {
    const int part = static_cast<int>(threadIdx.x) + i * kThreads;
    const int row = part / kParts, byte = part % kParts * bytes, column = first_column + byte / kSize;
    int valid = mutation == Mutation::kNoColumnGuard ? bytes : min(bytes, (from.columns - column) * kSize);
    if (valid < 0 || (mutation != Mutation::kNoRowGuard && first_row + row >= from.rows)) valid = 0;
    T* source = static_cast<T*>(from.data);
    if (valid > 0) source += static_cast<int64_t>(first_row + row) * from.stride + column;
    unsigned char* target = reinterpret_cast<unsigned char*>(
                                tile + place_of(row, byte / kChunkBytes, mutation != Mutation::kNoSwizzle)) +
                            byte % kChunkBytes;
    cp_async_zfill<bytes>(target, source, valid);
    if (mutation == Mutation::kSourceOverwritten && valid > 0 && part == 5) *source = T{};
    if (mutation == Mutation::kTargetOverwritten && part == 5) *reinterpret_cast<uint32_t*>(target) = 0;
  }
}

// Loads the fragments of the warp's 16 rows and 16 columns at `step` of the tiles, and multiplies.
template <class T, bool b_by_rows, Mutation mutation, class Sum>
__device__ void multiply(MmaSums<Sum> (&sums)[2], const Chunk* a_tile, const Chunk* b_tile, int step) {
  constexpr bool kSwizzle = mutation != Mutation::kNoSwizzleInReader && mutation != Mutation::kNoSwizzle;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int row = warp / 2 * kRowsOfWarp, column = warp % 2 * kRowsOfWarp;
  const char* a_row =
      reinterpret_cast<const char*>(a_tile + place_of(row + lane % 16, 2 * step + lane / 16, kSwizzle));
  if (mutation == Mutation::kMisalignedRow) a_row += 4;
  MmaA a;
  ldmatrix<4>(a.registers, a_row);
  uint32_t of_b[4];
  if constexpr (b_by_rows) {
    ldmatrix<4, true>(of_b,
                      b_tile + place_of(kRowsOfWarp * step + lane % 16, column / 8 + lane / 16, kSwizzle));
  } else {
    ldmatrix<4>(of_b,
                b_tile + place_of(column + lane % 8 + lane / 16 * 8, 2 * step + lane / 8 % 2, kSwizzle));
  }
  if (mutation == Mutation::kRegistersExchanged) {
    const uint32_t first = a.registers[1];
    a.registers[1] = a.registers[2], a.registers[2] = first;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    MmaB b = {{of_b[2 * i], of_b[2 * i + 1]}};
    if (mutation == Mutation::kLaneExchanged && lane == 13) b = {{b.registers[1], b.registers[0]}};
    if (mutation != Mutation::kLaneMissing || lane != 7) mma_sync<T>(sums[i], a, b);
  }
}

// Sums of 32 bits go to c as they are.
template <class Sum>
__device__ void store_sums(const MmaSums<Sum> (&sums)[2], Sum* c, int m, int n) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int row = static_cast<int>(blockIdx.y) * kSide + warp / 2 * kRowsOfWarp + lane / 4;
  const int column = static_cast<int>(blockIdx.x) * kSide + warp % 2 * kRowsOfWarp + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int r = row + i / 2 % 2 * 8, k = column + i / 4 * 8 + i % 2;
    if (r < m && k < n) c[static_cast<int64_t>(r) * n + k] = sums[i / 4].values[i % 4];
  }
}

// Those of 16-bit types are rounded, and go through shared memory.
template <class T>
__device__ void store_rounded(const MmaSums<float> (&sums)[2], T* c, int m, int n) {
  BRAID_SHARED(Chunk, tile, kSide * kChunks);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  uint32_t packed[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    packed[i] = pack_floats<T>(sums[i / 2].values[i % 2 * 2], sums[i / 2].values[i % 2 * 2 + 1]);
  stmatrix<4>(tile + place_of(warp / 2 * kRowsOfWarp + lane % 16, warp % 2 * 2 + lane / 16, true), packed);
  __syncthreads();
  const int row = static_cast<int>(threadIdx.x) / kChunks, chunk = static_cast<int>(threadIdx.x) % kChunks;
  const int r = static_cast<int>(blockIdx.y) * kSide + row;
  const int first = static_cast<int>(blockIdx.x) * kSide + chunk * 8;
  const T* from = reinterpret_cast<const T*>(tile + place_of(row, chunk, true));
  for (int i = 0; i < 8; ++i)
    if (r < m && first + i < n) c[static_cast<int64_t>(r) * n + first + i] = from[i];
}

template <class T, class Out, bool b_by_rows, int bytes, Mutation mutation>
__device__ void product(const Operand& a, const Operand& b, Out* c) {
  constexpr int kTile = kSide * kChunks, kDepth = kRowBytes / static_cast<int>(sizeof(T));
  using Sum = std::conditional_t<std::is_same_v<T, int8_t>, int, float>;
  BRAID_SHARED(Chunk, a_tiles, kStages * kTile);
  BRAID_SHARED(Chunk, b_tiles, kStages * kTile);
  const int first_row = static_cast<int>(blockIdx.y) * kSide,
            first_column = static_cast<int>(blockIdx.x) * kSide;
  const int tiles = (a.columns + kDepth - 1) / kDepth;
  const auto copy = [&](int t) {
    const int stage = t % kStages * kTile;
    copy_tile<T, bytes, mutation>(a_tiles + stage, a, first_row, t * kDepth);
    if constexpr (b_by_rows)
      copy_tile<T, bytes, mutation>(b_tiles + stage, b, t * kDepth, first_column);
    else
      copy_tile<T, bytes, mutation>(b_tiles + stage, b, first_column, t * kDepth);
  };
  MmaSums<Sum> sums[2] = {};
  copy(0);
  if (mutation != Mutation::kNoCommit) cp_async_commit_group();
  for (int t = 0; t < tiles; ++t) {
    if (t + 1 < tiles || mutation == Mutation::kOneTileTooMany) copy(t + 1);
    if (mutation != Mutation::kNoCommit) cp_async_commit_group();
    if (mutation != Mutation::kNoWait)
      cp_async_wait_group<mutation == Mutation::kWaitForTooFew ? kStages : kStages - 1>();
    if (mutation != Mutation::kNoBarrierAfterWait) __syncthreads();
#pragma unroll
    for (int step = 0; step < kRowBytes / kStepBytes; ++step)
      multiply<T, b_by_rows, mutation>(sums, a_tiles + t % kStages * kTile, b_tiles + t % kStages * kTile,
                                       step);
    if (mutation != Mutation::kNoBarrierAfterUse) __syncthreads();
  }
  const int columns = b_by_rows ? b.columns : b.rows;
  if constexpr (sizeof(T) == 2)
    store_rounded(sums, c, a.rows, columns);
  else
    store_sums(sums, c, a.rows, columns);
}

}  // namespace braid_cuda_tile_product
