// Depthwise convolutions of channels-last images, with 512-bit vectors (tile_kernels.h). A tile is some
// adjacent pixels of a row of the result and up to 3 vectors of channels. It reads one element of the image
// per multiplication, which the first-level cache can keep up with. Rows of taps outside of the image are
// skipped; in tiles at the left and right border, a mask per tap and pixel excludes elements outside of the
// image.
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

constexpr int64_t kMostVectors = 3;
constexpr int64_t kCached = 32 * 1024;  // bytes of an image and its taps that stay in the first-level cache

struct Operands {
  const float*
      a;  // for the first pixel, row of taps and tap; may lie outside of the image where masks say so
  int64_t a_pixel, a_tap_row, a_tap;
  const float* weights;
  int64_t weights_row, weights_tap;
  int64_t tap_rows, taps;
  const uint16_t* masks;  // [taps][kTilePixels]
  const GemmArgs* args;
  int biases;
  int64_t channel, channels;
  DirectStore store;
  const float* matrix;  // may be null
  float* to;
  int64_t to_pixel;
};

template <int kPixels, int kVectors, bool kBorder>
void tile(const Operands& o) {
  __m512 sums[kPixels][kVectors], bias[kVectors];
  load_biases(*o.args, o.biases, o.channel, o.channels, bias);
#pragma GCC unroll 8
  for (int p = 0; p < kPixels; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[p][v] = bias[v];
  }
  // The memory may end after the last channel.
  const int64_t behind = o.channels % kLanes;
  const auto tail = static_cast<__mmask16>(behind == 0 ? 0xffffu : (1u << behind) - 1);
  const auto add_taps = [&](auto has_tail) {
    for (int64_t y = 0; y < o.tap_rows; ++y) {
      const float* a = o.a + y * o.a_tap_row;
      const float* weights = o.weights + y * o.weights_row;
      for (int64_t x = 0; x < o.taps; ++x, a += o.a_tap, weights += o.weights_tap) {
        __m512 w[kVectors];
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) w[v] = _mm512_load_ps(weights + v * kLanes);
#pragma GCC unroll 8
        for (int p = 0; p < kPixels; ++p) {
#pragma GCC unroll 4
          for (int v = 0; v < kVectors; ++v) {
            const float* const from = a + p * o.a_pixel + v * kLanes;
            const bool partial = has_tail && v == kVectors - 1;
            if constexpr (kBorder) {
              const __mmask16 inside = o.masks[x * kTilePixels + p];
              const auto mask = static_cast<__mmask16>(partial ? inside & tail : inside);
              sums[p][v] = _mm512_mask3_fmadd_ps(_mm512_maskz_loadu_ps(mask, from), w[v], sums[p][v], mask);
            } else {
              const __m512 in = partial ? _mm512_maskz_loadu_ps(tail, from) : _mm512_loadu_ps(from);
              sums[p][v] = _mm512_fmadd_ps(in, w[v], sums[p][v]);
            }
          }
        }
      }
    }
  };
  if (behind == 0)
    add_taps(std::false_type());
  else
    add_taps(std::true_type());
  store_tile(sums, o.store, o.matrix, o.to, o.to_pixel,
             o.store.last == Last::in_cache ? kVectors * kLanes : o.channels);
}

using TileFunction = void (*)(const Operands&);
template <int kVectors, bool kBorder>
constexpr TileFunction kTilesOf[kTilePixels] = {tile<1, kVectors, kBorder>, tile<2, kVectors, kBorder>,
                                                tile<3, kVectors, kBorder>, tile<4, kVectors, kBorder>,
                                                tile<5, kVectors, kBorder>, tile<6, kVectors, kBorder>,
                                                tile<7, kVectors, kBorder>};
constexpr const TileFunction* kTiles[2][kMostVectors] = {
    {kTilesOf<1, false>, kTilesOf<2, false>, kTilesOf<3, false>},
    {kTilesOf<1, true>, kTilesOf<2, true>, kTilesOf<3, true>}};

// Some channels of some rows of the result.
class Columns {
 public:
  Columns(const DepthwiseShape& s, const GemmArgs& args, const float* weights, int64_t first, int64_t vectors)
      : s_(s), args_(args), vectors_(vectors), weights_(weights + first * kLanes) {
    o_.args = &args;
    o_.biases = count_biases(s.epilogue);
    o_.channel = first * kLanes;
    o_.store = direct_store(s.epilogue);
    direct_ = o_.store.last != Last::in_cache;
    o_.a_pixel = s.stride[1] * s.a_spatial[1];
    o_.a_tap_row = s.dilation[0] * s.a_spatial[0];
    o_.a_tap = s.dilation[1] * s.a_spatial[1];
    o_.weights_tap = s.padded_channels();
    o_.weights_row = s.taps[1] * o_.weights_tap;
    o_.taps = s.taps[1];
    o_.channels = std::min(vectors * kLanes, s.channels - o_.channel);
    o_.to_pixel = direct_ ? s.out_spatial[1] : vectors * kLanes;
  }

  void row(int64_t row) {
    const int64_t image = row / s_.out[0], y = row % s_.out[0];
    const TapRange inside = taps_inside(s_, 0, y);
    const int64_t in_y = y * s_.stride[0] - s_.pad[0] + inside.begin * s_.dilation[0];
    const float* const a = static_cast<const float*>(args_.a) + image * s_.a_batch + in_y * s_.a_spatial[0] -
                           s_.pad[1] * s_.a_spatial[1] + o_.channel;
    const int64_t out = image * s_.out_batch + y * s_.out_spatial[0] + o_.channel;
    o_.tap_rows = inside.end - inside.begin;
    o_.weights = weights_ + inside.begin * o_.weights_row;
    o_.masks = s_.masks.data();
    for (const DepthwiseShape::Tile& t : s_.tiles) {
      const int64_t at = out + t.x * s_.out_spatial[1];
      o_.a = a + t.x * o_.a_pixel;
      o_.to = direct_ ? static_cast<float*>(args_.c) + at : buffer_;
      if (o_.store.matrix >= 0) o_.matrix = static_cast<const float*>(args_.vectors[o_.store.matrix]) + at;
      kTiles[t.border][vectors_ - 1][t.pixels - 1](o_);
      if (!direct_)
        finish_tile({buffer_, o_.to_pixel, t.pixels, o_.channels, o_.channel, at, s_.out_spatial[1]},
                    s_.epilogue, o_.biases, args_);
      o_.masks += o_.taps * kTilePixels;
    }
  }

 private:
  const DepthwiseShape& s_;
  const GemmArgs& args_;
  int64_t vectors_;
  const float* weights_;
  Operands o_ = {};
  bool direct_;
  alignas(64) float buffer_[kTilePixels * kMostVectors * kLanes];
};

}  // namespace

void depthwise_tiles(const DepthwiseShape& s, const GemmArgs& args, const float* weights,
                     const TilePart& part) {
  const int64_t columns = part.column_end - part.column_begin;
  const int64_t blocks = (columns + kMostVectors - 1) / kMostVectors;
  const int64_t pixels = std::min((part.row_end - part.row_begin) * s.stride[0], s.in[0]) * s.in[1];
  const int64_t bytes =
      (pixels + s.taps[0] * s.taps[1]) * kMostVectors * kLanes * static_cast<int64_t>(sizeof(float));
  // Small images once per block of channels, large ones row by row.
  const int64_t rows_together = bytes <= kCached ? part.row_end - part.row_begin : 1;
  for (int64_t row = part.row_begin; row < part.row_end; row += rows_together) {
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t first = part.column_begin + columns * block / blocks;
      Columns c(s, args, weights, first, part.column_begin + columns * (block + 1) / blocks - first);
      for (int64_t r = row; r < row + rows_together; ++r) c.row(r);
    }
  }
}

void transpose_rows(float* to, int64_t to_row, const float* from, int64_t from_column, int64_t rows,
                    int64_t columns) {
  constexpr int64_t kGathered = 8;
  const __m512i steps =
      _mm512_mullo_epi64(_mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0), _mm512_set1_epi64(from_column));
  for (int64_t c = 0; c < columns; c += kGathered) {
    const int64_t left = columns - c;
    const auto mask = static_cast<__mmask8>(left >= kGathered ? 0xffu : (1u << left) - 1);
    for (int64_t r = 0; r < rows; ++r) {
      const __m256 row =
          _mm512_mask_i64gather_ps(_mm256_setzero_ps(), mask, steps, from + c * from_column + r, 4);
      _mm256_mask_storeu_ps(to + r * to_row + c, mask, row);
    }
  }
}

}  // namespace braid::rt::avx512
#endif
