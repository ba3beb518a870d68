// Our own kernels for products with packed weights and for convolutions of channels-last images: depthwise
// ones, those of tap_convolution.h and of winograd.h; f32, with 512-bit vectors. They compute a tile of the
// result in registers and apply the epilogue while it lies in the first-level cache.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/gemm.h"
#include "runtime/gemm_isa.h"
#include "runtime/team.h"

namespace braid::rt {

inline constexpr int64_t kTilePixels = 7;  // at most; sizes of images are often multiples of it

// A convolution of each channel with its own taps; two spatial dimensions, channels adjacent. Strides count
// elements.
struct DepthwiseShape {
  int64_t channels = 0;
  std::array<int64_t, 2> in = {}, out = {}, taps = {}, stride = {}, dilation = {}, pad = {};
  int64_t a_batch = 0, out_batch = 0;
  std::array<int64_t, 2> a_spatial = {}, out_spatial = {};
  Epilogue epilogue;
  // A tile of a row of the result; tiles go from left to right.
  struct Tile {
    int64_t x = 0, pixels = 0;
    bool border = false;  // some taps are outside of the image
  };
  std::vector<Tile> tiles;
  // Which pixels of a tile a tap has an element for, all bits or none: [tiles][taps[1]][kTilePixels].
  std::vector<uint16_t> masks;

  int64_t padded_channels() const { return (channels + 15) / 16 * 16; }
};

// The taps of dimension d that lie inside of the image for element `at` of the result.
struct TapRange {
  int64_t begin, end;
};
inline TapRange taps_inside(const DepthwiseShape& s, size_t d, int64_t at) {
  const int64_t first = at * s.stride[d] - s.pad[d], step = s.dilation[d];
  const int64_t begin = std::min(first < 0 ? (step - 1 - first) / step : 0, s.taps[d]);
  const int64_t end = first < s.in[d] ? (s.in[d] - first + step - 1) / step : 0;
  return {begin, std::clamp(end, begin, s.taps[d])};
}

// Rows of a convolution's result at equal distances. Row r sums over taps t and channels c:
//   sum += a[t * rows + r][first_channel + c] * b[t, c]
struct TapRows {
  int64_t taps = 0, channels = 0, filters = 0;  // of one group
  const float* const* a = nullptr;              // [taps][rows]: channels, or zeros outside of the image
  int64_t rows = 0;
  int64_t first_channel = 0, first_filter = 0;  // of the group
  int64_t out = 0, out_row = 0;                 // offset of the first row in c, and distance of rows
};

// Adjacent tiles of Winograd's algorithm (winograd.h) in a line of an image.
struct WinogradLine {
  const float* products = nullptr;  // element e, tile t, filter f: [e * element_row + t * filters + f]
  int64_t element_row = 0;
  int64_t tiles = 0, filters = 0;
  int64_t out_lines = 0, out_columns = 0;         // of the result: two for each tile, or fewer at its edges
  int64_t out = 0, out_line = 0, out_column = 0;  // offset of the first one in c, and distances
};

// A part of a result, for one thread.
struct TilePart {
  int64_t row_begin = 0, row_end = 0;
  int64_t column_begin = 0, column_end = 0;  // panels, or vectors of 16 channels
};

struct TileKernels {
  // One matrix with a_col and c_col 1; panels of b are multiples of 16 up to 64 wide.
  void (*multiply)(const GemmShape& shape, const GemmArgs& args, const float* b, Panels panels,
                   const TilePart& part);
  // Rows of the result, counted over the batch. Weights are [taps][padded_channels()]. `args.b` is not read.
  void (*depthwise)(const DepthwiseShape& shape, const GemmArgs& args, const float* weights,
                    const TilePart& part);
  // Panels [begin, end) of the filters. Panels of b are multiples of 16 up to 64 wide,
  // [taps][channels][width].
  void (*taps)(const TapRows& rows, const Epilogue& epilogue, const GemmArgs& args, const float* b,
               Panels panels, int64_t begin, int64_t end);
  // The transforms of a tile's elements, whose channels are at in[0 ... 15], and of products.
  void (*winograd_in)(const float* const* in, int64_t channels, float* elements, int64_t element_row);
  void (*winograd_out)(const WinogradLine& line, const Epilogue& epilogue, const GemmArgs& args);
  // to[r * to_row + c] = from[c * from_column + r]
  void (*transpose)(float* to, int64_t to_row, const float* from, int64_t from_column, int64_t rows,
                    int64_t columns);
};

// Null on a processor without such vectors.
const TileKernels* tile_kernels();

// The width of panels for a matrix of so many columns: whole panels and one that is not much narrower,
// because a tile of few vectors reads its rows for few sums.
int64_t tile_panel_width(int64_t columns);
// Packs a matrix [k, n] in panels of that width, [panel][k][width] with zeros beyond n, on the current team.
void pack_tile_panels(int64_t k, int64_t n, const float* b, int64_t b_row, int64_t b_col, float* to);
inline size_t tile_panel_bytes(int64_t k, int64_t n) {
  const int64_t width = tile_panel_width(n);
  return static_cast<size_t>((n + width - 1) / width * width * k) * sizeof(float);
}

// Whether `multiply` takes panels of that width on this processor.
inline bool suits_tiles(int64_t width) {
  return tile_kernels() != nullptr && width > 0 && width % 16 == 0 && width <= 64;
}

// Calls run(part) or run(part, thread) for parts of `rows` times `columns`, some per thread, cut in the
// direction in which the busiest thread has the least to do. Each part reads all rows, or all columns, from
// memory. Therefore the columns are split if they are panels of `panel_width` columns with more columns than
// rows, unless the busiest thread then has much more to do.
template <class Run>
void split_tiles(int threads, int64_t rows, int64_t columns, const Run& run, int64_t panel_width = 0) {
  const auto most = [&](int64_t count) { return (count + threads - 1) / threads; };
  const int64_t rows_split = most(rows) * columns, columns_split = rows * most(columns);
  const bool more_columns = columns * panel_width > rows;
  const bool by_rows =
      more_columns ? rows_split + rows_split / 16 < columns_split : rows_split <= columns_split;
  constexpr int64_t kFewestRows = 16;  // each part reads all columns
  const auto run_on = [&](const TilePart& part, int thread) {
    if constexpr (std::is_invocable_v<const Run&, TilePart, int>)
      run(part, thread);
    else
      run(part);
  };
  parallel_for(
      by_rows ? rows : columns, threads > 1,
      [&](int64_t begin, int64_t end, int thread) {
        run_on(by_rows ? TilePart{begin, end, 0, columns} : TilePart{0, rows, begin, end}, thread);
      },
      by_rows ? kFewestRows : 1);
}

}  // namespace braid::rt
