// Matrix products with packed weights, with 512-bit vectors (tile_kernels.h). A tile of up to 8 rows (6 with
// 4 vectors) and 4 vectors of columns stays in registers over a part of k. Weights are read once per tile
// from the second-level cache, rows once per panel, and the sums of earlier parts from c. Meanwhile the next
// panel's weights are fetched: a model's weights come from memory, one after another.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "runtime/tile_kernels.h"
#include "runtime/vec_math.h"

#ifdef __x86_64__
#include <immintrin.h>
// After the includes: inline functions, which other files have too, must not be built for this target.
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma")

namespace braid::rt::avx512 {
#include "runtime/finish_tile_avx512.inc"

namespace {

constexpr int64_t kMostVectors = 4;
// A second-level cache of at least 1 MB keeps two panels and a block of rows, each a part of k long. Each
// block of rows reads all weights again.
constexpr int64_t kMostK = 768;
constexpr int64_t kBlockBytes = 512 * 1024;
constexpr int64_t kFewestRows = 24;  // of a block; whole tiles of 6 and of 8 rows
constexpr int64_t kLine = 64;

constexpr int64_t most_rows(int64_t vectors) { return vectors == 4 ? 6 : 8; }

struct Operands {
  const float* a;
  int64_t a_row, k;
  const float* b;
  int64_t b_row;
  const GemmArgs* args;
  int biases;
  int64_t column, columns;
  const float* before;  // sums of the parts of k before, in rows like those of c; null: none
  int64_t before_row;
  DirectStore store;
  const float* matrix;  // may be null
  float* to;
  int64_t to_row;
  const char* ahead;  // the address to prefetch from, so many bytes with every element of k
  int64_t ahead_step;
};

template <int kRows, int kVectors>
void tile(const Operands& o) {
  __m512 sums[kRows][kVectors];
  begin_sums(*o.args, o.biases, o.column, o.columns, o.before, o.before_row, sums);
  const float* a[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) a[r] = o.a + r * o.a_row;
  if (o.matrix != nullptr) {  // by the end of the sums it is there
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) _mm_prefetch(o.matrix + r * o.to_row + v * kLanes, _MM_HINT_T0);
    }
  }
  const float* b = o.b;
  const char* ahead = o.ahead;
  for (int64_t i = 0; i < o.k; ++i, b += o.b_row, ahead += o.ahead_step) {
    _mm_prefetch(ahead, _MM_HINT_T1);
    __m512 w[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) w[v] = _mm512_loadu_ps(b + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512 x = all(a[r][i]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_fmadd_ps(x, w[v], sums[r][v]);
    }
  }
  store_tile(sums, o.store, o.matrix, o.to, o.to_row,
             o.store.last == Last::in_cache ? kVectors * kLanes : o.columns);
}

using TileFunction = void (*)(const Operands&);
// By vectors and rows, both from 1.
constexpr TileFunction kTiles[kMostVectors][8] = {
    {tile<1, 1>, tile<2, 1>, tile<3, 1>, tile<4, 1>, tile<5, 1>, tile<6, 1>, tile<7, 1>, tile<8, 1>},
    {tile<1, 2>, tile<2, 2>, tile<3, 2>, tile<4, 2>, tile<5, 2>, tile<6, 2>, tile<7, 2>, tile<8, 2>},
    {tile<1, 3>, tile<2, 3>, tile<3, 3>, tile<4, 3>, tile<5, 3>, tile<6, 3>, tile<7, 3>, tile<8, 3>},
    {tile<1, 4>, tile<2, 4>, tile<3, 4>, tile<4, 4>, tile<5, 4>, tile<6, 4>, nullptr, nullptr},
};

}  // namespace

void multiply_tiles(const GemmShape& shape, const GemmArgs& args, const float* b, Panels panels,
                    const TilePart& part) {
  alignas(64) float buffer[8 * kMostVectors * kLanes];
  Operands o = {};
  o.args = &args;
  o.biases = count_biases(shape.epilogue);
  const DirectStore store = direct_store(shape.epilogue);
  o.a_row = shape.a_row;
  o.b_row = panels.width;
  o.before_row = shape.c_row;
  const int64_t parts = std::max((shape.k + kMostK - 1) / kMostK, int64_t{1});
  const int64_t row_bytes =
      (shape.k / parts + std::min(shape.n, panels.width)) * static_cast<int64_t>(sizeof(float));
  const int64_t block = std::max(kBlockBytes / row_bytes / kFewestRows, int64_t{1}) * kFewestRows;
  for (int64_t begin = part.row_begin; begin < part.row_end; begin += block) {
    const int64_t rows = std::min(block, part.row_end - begin);
    for (int64_t q = 0; q < parts; ++q) {
      const int64_t k_begin = shape.k * q / parts;
      const bool last = q + 1 == parts, direct = !last || store.last != Last::in_cache;
      o.k = shape.k * (q + 1) / parts - k_begin;
      o.store = last ? store : DirectStore{};
      for (int64_t p = part.column_begin; p < part.column_end; ++p) {
        o.column = p * panels.width;
        o.columns = std::min(panels.width, shape.n - o.column);
        const int64_t vectors = (o.columns + kLanes - 1) / kLanes;
        o.b = b + p * panels.panel_stride + k_begin * panels.width;
        o.to_row = direct ? shape.c_row : vectors * kLanes;
        // Tiles of equal heights, as far as possible.
        const int64_t tiles = (rows + most_rows(vectors) - 1) / most_rows(vectors);
        // The next panel, or the first panel's next part. After the last panel of the last part it is the
        // present panel, so that nothing beyond the weights is read.
        const bool follows = p + 1 < part.column_end;
        const float* const next =
            follows ? o.b + panels.panel_stride
            : last  ? o.b
                    : b + part.column_begin * panels.panel_stride + (k_begin + o.k) * panels.width;
        const int64_t next_bytes = o.k * panels.width * static_cast<int64_t>(sizeof(float));
        o.ahead_step = std::min(next_bytes / std::max(tiles * o.k, int64_t{1}) + 1, kLine);
        for (int64_t t = 0; t < tiles; ++t) {
          const int64_t from = rows * t / tiles, height = rows * (t + 1) / tiles - from, row = begin + from;
          const int64_t at = row * shape.c_row + o.column;
          float* const c = static_cast<float*>(args.c) + at;
          o.a = static_cast<const float*>(args.a) + row * shape.a_row + k_begin;
          o.before = q == 0 ? nullptr : c;
          o.to = direct ? c : buffer;
          o.matrix = last && store.matrix >= 0 ? static_cast<const float*>(args.vectors[store.matrix]) + at
                                               : nullptr;
          o.ahead = reinterpret_cast<const char*>(next) + t * o.k * o.ahead_step;
          kTiles[vectors - 1][height - 1](o);
          if (direct) continue;
          finish_tile({buffer, o.to_row, height, o.columns, o.column, at, shape.c_row}, shape.epilogue,
                      o.biases, args);
        }
      }
    }
  }
}

}  // namespace braid::rt::avx512
#endif
