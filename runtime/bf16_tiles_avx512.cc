// Products of bf16 matrices with AVX-512 BF16 (half_gemm.h). A tile of up to 6 rows and 64 columns stays in
// registers over all of k. With one or two rows, where reading the weights is the limit, several panels are
// read at once. With AMX, tiles have 32 rows and 32 columns; the rest of k is added as without AMX.
#include "runtime/half_gemm.h"

#ifdef __x86_64__
#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "runtime/vec_math.h"
// After the includes: inline functions, which other files have too, must not be built for this target.
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16,fma")

namespace braid::rt::avx512 {
#include "runtime/finish_tile_avx512.inc"

namespace {
#include "runtime/amx_tiles.inc"

constexpr int64_t kWidth = 64;
constexpr int kVectors = 4;
constexpr int kMostRows = 6;
constexpr int64_t kAhead = 2048;  // bytes of b that are prefetched, as in gemm_kernels.inc
// Bytes of the rows of a and of the part of c that a panel writes. They stay in the second-level cache: each
// block of rows reads all weights again. Processors with AMX have 2 MB of it.
constexpr int64_t kBlockBytes = 512 * 1024, kBlockBytesOfUnits = 1024 * 1024;
constexpr int64_t kFewestRows = 24;
constexpr int64_t kLine = 64;
constexpr int64_t kMostLines = 16;  // that are fetched while one instruction of AMX runs

struct Operands {
  const uint16_t* a;
  int64_t a_row, k;
  const uint16_t* b;
  int64_t panel_stride;
  float* sums;  // [panel][row][64]
  // Weights that are needed next are fetched into the second-level cache: so many bytes with every pair of k,
  // or so many lines with every instruction of AMX for one tile of columns.
  const char* ahead;
  int64_t ahead_step, ahead_lines;
};

inline __m512bh as_bf16(__m512i x) { return reinterpret_cast<__m512bh>(x); }

template <int kRows, int kPanels, bool kStreams>
void tile(const Operands& o) {
  __m512 sums[kPanels][kRows][kVectors];
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[p][r][v] = _mm512_setzero_ps();
    }
  }
  const uint16_t* b = o.b;
  const auto step = [&](const int32_t(&pairs)[kRows]) {
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      __m512i w[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const uint16_t* const from = b + p * o.panel_stride + v * 2 * kLanes;
        w[v] = _mm512_loadu_si512(from);
        if constexpr (kStreams) _mm_prefetch(reinterpret_cast<const char*>(from) + kAhead, _MM_HINT_T0);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const __m512bh x = as_bf16(_mm512_set1_epi32(pairs[r]));
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sums[p][r][v] = _mm512_dpbf16_ps(sums[p][r][v], x, as_bf16(w[v]));
      }
    }
    b += 2 * kWidth;
  };
  int32_t pairs[kRows];
  const char* ahead = o.ahead;
  for (int64_t i = 0; i + 2 <= o.k; i += 2, ahead += o.ahead_step) {
    if constexpr (!kStreams) _mm_prefetch(ahead, _MM_HINT_T1);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) std::memcpy(&pairs[r], o.a + r * o.a_row + i, sizeof pairs[r]);
    step(pairs);
  }
  if (o.k % 2 != 0) {
    for (int r = 0; r < kRows; ++r) pairs[r] = o.a[r * o.a_row + o.k - 1];
    step(pairs);
  }
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        _mm512_store_ps(o.sums + (p * kRows + r) * kWidth + v * kLanes, sums[p][r][v]);
    }
  }
}

constexpr int kMostTileRows = 32;
constexpr int64_t kStep = 16;  // pairs of k that one instruction of AMX takes

// Up to 32 rows (more than 16 if kTwoRows) and 32 columns from `column` on.
template <bool kTwoRows>
void multiply_tiles(const Operands& o, int64_t blocks, int64_t column) {
  constexpr int64_t kPanelRow = kWidth * 2 * static_cast<int64_t>(sizeof(uint16_t)),
                    kSumsRow = kWidth * static_cast<int64_t>(sizeof(float));
  const int64_t a_row = o.a_row * static_cast<int64_t>(sizeof(uint16_t));
  const uint16_t* a = o.a;
  const uint16_t* b = o.b + column * 2;
  const char* ahead = o.ahead + column / (2 * kLanes) * blocks * o.ahead_lines * kLine;
  _tile_zero(BRAID_SUMS_00);
  _tile_zero(BRAID_SUMS_01);
  if constexpr (kTwoRows) {
    _tile_zero(BRAID_SUMS_10);
    _tile_zero(BRAID_SUMS_11);
  }
  for (int64_t k = 0; k < blocks; ++k, a += 2 * kStep, b += 2 * kStep * kWidth) {
    for (int64_t l = 0; l < o.ahead_lines; ++l, ahead += kLine) _mm_prefetch(ahead, _MM_HINT_T1);
    _tile_loadd(BRAID_ROWS_0, a, a_row);
    _tile_loadd(BRAID_COLUMNS_0, b, kPanelRow);
    _tile_dpbf16ps(BRAID_SUMS_00, BRAID_ROWS_0, BRAID_COLUMNS_0);
    _tile_loadd(BRAID_COLUMNS_1, b + 2 * kLanes, kPanelRow);
    _tile_dpbf16ps(BRAID_SUMS_01, BRAID_ROWS_0, BRAID_COLUMNS_1);
    if constexpr (kTwoRows) {
      _tile_loadd(BRAID_ROWS_1, a + 16 * o.a_row, a_row);
      _tile_dpbf16ps(BRAID_SUMS_10, BRAID_ROWS_1, BRAID_COLUMNS_0);
      _tile_dpbf16ps(BRAID_SUMS_11, BRAID_ROWS_1, BRAID_COLUMNS_1);
    }
  }
  float* const sums = o.sums + column;
  _tile_stored(BRAID_SUMS_00, sums, kSumsRow);
  _tile_stored(BRAID_SUMS_01, sums + kLanes, kSumsRow);
  if constexpr (kTwoRows) {
    _tile_stored(BRAID_SUMS_10, sums + 16 * kWidth, kSumsRow);
    _tile_stored(BRAID_SUMS_11, sums + 16 * kWidth + kLanes, kSumsRow);
  }
}

void tile_of_units(const Operands& o, int rows) {
  const int64_t blocks = o.k / (2 * kStep);
  for (int64_t column = 0; column < kWidth; column += 2 * kLanes)
    (rows > 16 ? multiply_tiles<true> : multiply_tiles<false>)(o, blocks, column);
  for (int r = 0; r < rows && blocks * 2 * kStep < o.k; ++r) {
    __m512 sums[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[v] = _mm512_load_ps(o.sums + r * kWidth + v * kLanes);
    for (int64_t i = blocks * 2 * kStep; i < o.k; i += 2) {
      const uint16_t* const a = o.a + r * o.a_row + i;
      const int32_t pair = i + 1 < o.k ? a[0] | a[1] << 16 : a[0];
      const __m512bh x = as_bf16(_mm512_set1_epi32(pair));
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const __m512i w = _mm512_loadu_si512(o.b + i * kWidth + v * 2 * kLanes);
        sums[v] = _mm512_dpbf16_ps(sums[v], x, as_bf16(w));
      }
    }
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) _mm512_store_ps(o.sums + r * kWidth + v * kLanes, sums[v]);
  }
}

using TileFunction = void (*)(const Operands&);
constexpr TileFunction kTiles[kMostRows] = {tile<1, 1, false>, tile<2, 1, false>, tile<3, 1, false>,
                                            tile<4, 1, false>, tile<5, 1, false>, tile<6, 1, false>};
constexpr TileFunction kStreams[kMostRows] = {tile<1, 4, true>, tile<2, 2, true>, tile<3, 1, true>,
                                              tile<4, 1, true>, tile<5, 1, true>, tile<6, 1, true>};
constexpr int64_t kStreamPanels[kMostRows] = {4, 2, 1, 1, 1, 1};

// Rounds a vector to bf16, nearest even, as half.h does; the processor's own conversion takes subnormals as
// 0.
inline __m256i rounded(__m512 x) {
  const __m512i u = _mm512_castps_si512(x), high = _mm512_srli_epi32(u, 16);
  const __m512i even = _mm512_and_si512(high, _mm512_set1_epi32(1));
  const __m512i nearest =
      _mm512_srli_epi32(_mm512_add_epi32(u, _mm512_add_epi32(even, _mm512_set1_epi32(0x7fff))), 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(nearest, nan, high, _mm512_set1_epi32(0x40)));
}

void store_bf16(const Tile& t, uint16_t* c) {
  for (int64_t r = 0; r < t.rows; ++r) {
    for (int64_t j = 0; j < t.columns; j += kLanes) {
      const __m256i halves = rounded(_mm512_load_ps(t.sums + r * t.stride + j));
      const int64_t left = t.columns - j;
      const auto mask = static_cast<__mmask16>(left >= kLanes ? 0xffffu : (1u << left) - 1);
      _mm256_mask_storeu_epi16(c + r * t.c_row + j, mask, halves);
    }
  }
}

// Applies the epilogue to a tile and stores it.
void finish(const Tile& t, const GemmShape& shape, const GemmArgs& args) {
  if (shape.c_type == DType::f32) return finish_tile(t, shape.epilogue, 0, args);
  for (int p = 0; p < kMaxPostOps && shape.epilogue.ops[p] != PostOp::none; ++p)
    finish_step(t, shape.epilogue.ops[p], shape.epilogue.scale, args.vectors[p], t.sums, t.stride);
  store_bf16(t, static_cast<uint16_t*>(args.c) + t.c_at);
}

// The rows of which operands and sums stay in the cache.
int64_t rows_of_block(const GemmShape& shape, bool units) {
  const int64_t row_bytes = shape.k * 2 + std::min(shape.n, kWidth) * 4;
  const int64_t fewest = units ? 2 * kMostTileRows : kFewestRows;
  return std::max((units ? kBlockBytesOfUnits : kBlockBytes) / row_bytes / fewest, int64_t{1}) * fewest;
}

// Each of `tiles` fetches a part of the next panel; returns its bytes.
int64_t fetch_ahead(Operands& o, bool units, int64_t tiles) {
  const int64_t steps = units ? o.k / (2 * kStep) * (kWidth / (2 * kLanes)) : o.k / 2;
  const int64_t bytes =
      o.panel_stride * static_cast<int64_t>(sizeof(uint16_t)) / std::max(tiles * steps, int64_t{1});
  o.ahead_step = std::min(bytes + 1, kLine);
  o.ahead_lines = std::min(bytes / kLine + 1, kMostLines);
  return steps * (units ? o.ahead_lines * kLine : o.ahead_step);
}

void multiply(const GemmShape& shape, const GemmArgs& args, const uint16_t* a, int64_t a_row,
              const Bf16Panels& b, int64_t row_begin, int64_t row_end, int64_t column_begin,
              int64_t column_end) {
  // Decided by the whole product: its rows have the same bits for any number of threads.
  const bool units = b.matrix_units && shape.m > kMostRows && shape.k >= 2 * kStep;
  const int64_t most_rows = units ? kMostTileRows : kMostRows;
  Tiles tiles_of_thread;
  alignas(64) float buffer[kMostTileRows * kWidth];
  Operands o = {};
  o.a_row = a_row;
  o.k = shape.k;
  o.panel_stride = b.pairs * 2 * kWidth;
  o.sums = buffer;
  const auto finish_panels = [&](int64_t row, int64_t rows, int64_t p, int64_t panels) {
    for (int64_t q = 0; q < panels; ++q) {
      const int64_t column = (p + q) * kWidth;
      finish({buffer + q * rows * kWidth, kWidth, rows, std::min(kWidth, shape.n - column), column,
              row * shape.c_row + column, shape.c_row},
             shape, args);
    }
  };
  const int64_t rows = row_end - row_begin;
  if (rows <= 0) return;
  if (rows <= kMostRows && !units) {  // weights are read once
    o.a = a + row_begin * a_row;
    for (int64_t p = column_begin; p < column_end;) {
      const int64_t together = kStreamPanels[rows - 1];
      const bool many = p + together <= column_end;
      o.b = b.data + p * o.panel_stride;
      o.ahead = reinterpret_cast<const char*>(o.b);  // nothing
      (many ? kStreams : kTiles)[rows - 1](o);
      finish_panels(row_begin, rows, p, many ? together : 1);
      p += many ? together : 1;
    }
    return;
  }
  const int64_t block = rows_of_block(shape, units);
  for (int64_t begin = row_begin; begin < row_end; begin += block) {
    const int64_t height = std::min(block, row_end - begin);
    const int64_t tiles = (height + most_rows - 1) / most_rows;  // of equal heights, as far as possible
    const int64_t ahead_of_tile = fetch_ahead(o, units, tiles);
    for (int64_t p = column_begin; p < column_end; ++p) {
      o.b = b.data + p * o.panel_stride;
      const uint16_t* const next = p + 1 < column_end ? o.b + o.panel_stride : o.b;
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t row = begin + height * t / tiles, count = begin + height * (t + 1) / tiles - row;
        o.a = a + row * a_row;
        o.ahead = reinterpret_cast<const char*>(next) + t * ahead_of_tile;
        if (units) {
          tiles_of_thread.shape(static_cast<int>(count));
          tile_of_units(o, static_cast<int>(count));
        } else {
          kTiles[count - 1](o);
        }
        finish_panels(row, count, p, 1);
      }
    }
  }
}

void multiply_panel(const uint16_t* a, int64_t a_row, int64_t rows, int64_t k, const uint16_t* b,
                    bool matrix_units, float* sums) {
  const bool units = matrix_units && rows > kMostRows && k >= 2 * kStep;
  const int64_t most_rows = units ? kMostTileRows : kMostRows;
  const int64_t tiles = (rows + most_rows - 1) / most_rows;
  Tiles tiles_of_thread;
  Operands o = {};
  o.a_row = a_row;
  o.k = k;
  o.b = b;
  o.ahead = reinterpret_cast<const char*>(b);  // nothing
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t row = rows * t / tiles, count = rows * (t + 1) / tiles - row;
    o.a = a + row * a_row;
    o.sums = sums + row * kWidth;
    if (units) {
      tiles_of_thread.shape(static_cast<int>(count));
      tile_of_units(o, static_cast<int>(count));
    } else {
      kTiles[count - 1](o);
    }
  }
}

}  // namespace

const Bf16Kernels kBf16Kernels = {multiply, multiply_panel};

}  // namespace braid::rt::avx512
#endif
