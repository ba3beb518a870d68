// Convolutions of channels-last images with packed weights, with 512-bit vectors (tile_kernels.h). A tile of
// up to 8 rows of the result (6 with 4 vectors) and 4 vectors of filters stays in registers over a part of
// the taps and channels. Nothing is unfolded: each tap has the address of the channels that it meets in a
// row.
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
// Taps times channels of a part, so that a panel of its weights stays in the second-level cache.
constexpr int64_t kMostDepth = 768;

constexpr int64_t most_rows(int64_t vectors) { return vectors == 4 ? 6 : 8; }

struct Operands {
  const float* const* a;  // of the part's first tap, and the tile's first row
  int64_t taps, tap_row;
  int64_t channel, channels;
  const float* b;
  int64_t b_row, b_tap;
  const GemmArgs* args;
  int biases;
  int64_t column, columns;
  const float* before;  // sums of the parts before, in rows like those of c; null: none
  int64_t before_row;
  DirectStore store;
  const float* matrix;  // may be null
  float* to;
  int64_t to_row;
};

template <int kRows, int kVectors>
void tile(const Operands& o) {
  __m512 sums[kRows][kVectors];
  begin_sums(*o.args, o.biases, o.column, o.columns, o.before, o.before_row, sums);
  const float* const* rows = o.a;
  const float* of_tap = o.b;
  for (int64_t t = 0; t < o.taps; ++t, rows += o.tap_row, of_tap += o.b_tap) {
    const float* a[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) a[r] = rows[r] + o.channel;
    const float* b = of_tap;
    for (int64_t i = 0; i < o.channels; ++i, b += o.b_row) {
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

// A part of the sums: whole taps, or some channels of one tap.
struct Part {
  int64_t tap, taps, channel, channels;
};

template <class Run>
void for_each_part(int64_t taps, int64_t channels, const Run& run) {
  if (taps == 0) return run(Part{}, true, true);  // the sums are 0
  if (channels <= kMostDepth) {
    const int64_t most = std::max<int64_t>(kMostDepth / std::max<int64_t>(channels, 1), 1),
                  parts = (taps + most - 1) / most;
    for (int64_t q = 0; q < parts; ++q) {
      const int64_t begin = taps * q / parts, end = taps * (q + 1) / parts;
      run(Part{begin, end - begin, 0, channels}, q == 0, q + 1 == parts);
    }
    return;
  }
  const int64_t parts = (channels + kMostDepth - 1) / kMostDepth;
  for (int64_t q = 0; q < taps * parts; ++q) {
    const int64_t begin = channels * (q % parts) / parts, end = channels * (q % parts + 1) / parts;
    run(Part{q / parts, 1, begin, end - begin}, q == 0, q + 1 == taps * parts);
  }
}

}  // namespace

void tap_tiles(const TapRows& rows, const Epilogue& epilogue, const GemmArgs& args, const float* b,
               Panels panels, int64_t begin, int64_t end) {
  alignas(64) float buffer[8 * kMostVectors * kLanes];
  Operands o = {};
  o.args = &args;
  o.biases = count_biases(epilogue);
  o.tap_row = rows.rows;
  o.b_row = panels.width;
  o.b_tap = rows.channels * panels.width;
  o.before_row = rows.out_row;
  const DirectStore store = direct_store(epilogue);
  for_each_part(rows.taps, rows.channels, [&](const Part& part, bool first, bool last) {
    const bool direct = !last || store.last != Last::in_cache;
    o.taps = part.taps;
    o.channel = rows.first_channel + part.channel;
    o.channels = part.channels;
    o.store = last ? store : DirectStore{};
    for (int64_t p = begin; p < end; ++p) {
      const int64_t column = p * panels.width;
      o.column = rows.first_filter + column;
      o.columns = std::min(panels.width, rows.filters - column);
      const int64_t vectors = (o.columns + kLanes - 1) / kLanes;
      o.b = b + p * panels.panel_stride + part.tap * o.b_tap + part.channel * panels.width;
      o.to_row = direct ? rows.out_row : vectors * kLanes;
      // Tiles of equal heights, as far as possible.
      const int64_t tiles = (rows.rows + most_rows(vectors) - 1) / most_rows(vectors);
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t from = rows.rows * t / tiles, height = rows.rows * (t + 1) / tiles - from;
        const int64_t at = rows.out + from * rows.out_row + o.column;
        float* const c = static_cast<float*>(args.c) + at;
        o.a = rows.a + part.tap * rows.rows + from;
        o.before = first ? nullptr : c;
        o.to = direct ? c : buffer;
        o.matrix =
            last && store.matrix >= 0 ? static_cast<const float*>(args.vectors[store.matrix]) + at : nullptr;
        kTiles[vectors - 1][height - 1](o);
        if (!direct)
          finish_tile({buffer, o.to_row, height, o.columns, o.column, at, rows.out_row}, epilogue, o.biases,
                      args);
      }
    }
  });
}

}  // namespace braid::rt::avx512
#endif
