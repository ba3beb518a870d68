#include "runtime/tile_kernels.h"

#include "runtime/processor.h"

namespace braid::rt {

#ifdef __x86_64__
namespace avx512 {
void multiply_tiles(const GemmShape& shape, const GemmArgs& args, const float* b, Panels panels,
                    const TilePart& part);
void depthwise_tiles(const DepthwiseShape& shape, const GemmArgs& args, const float* weights,
                     const TilePart& part);
void tap_tiles(const TapRows& rows, const Epilogue& epilogue, const GemmArgs& args, const float* b,
               Panels panels, int64_t begin, int64_t end);
void winograd_in(const float* const* in, int64_t channels, float* elements, int64_t element_row);
void winograd_out(const WinogradLine& line, const Epilogue& epilogue, const GemmArgs& args);
void transpose_rows(float* to, int64_t to_row, const float* from, int64_t from_column, int64_t rows,
                    int64_t columns);
}  // namespace avx512
#endif

const TileKernels* tile_kernels() {
#ifdef __x86_64__
  static constexpr TileKernels kKernels = {avx512::multiply_tiles, avx512::depthwise_tiles,
                                           avx512::tap_tiles,      avx512::winograd_in,
                                           avx512::winograd_out,   avx512::transpose_rows};
  if (instruction_set() == InstructionSet::avx512) return &kKernels;
#endif
  return nullptr;
}

int64_t tile_panel_width(int64_t columns) {
  constexpr int64_t kVector = 16;
  const int64_t vectors = (columns + kVector - 1) / kVector;
  if (vectors <= 4) return vectors * kVector;
  const auto last = [&](int64_t width) { return (vectors + width - 1) % width + 1; };
  return (last(3) == 3 && last(4) != 4) || (last(4) == 1 && last(3) > 1) ? 48 : 64;
}

void pack_tile_panels(int64_t k, int64_t n, const float* b, int64_t b_row, int64_t b_col, float* to) {
  constexpr int64_t kRows = 16;  // of a block: elements of a column may be adjacent, or those of a row
  const int64_t width = tile_panel_width(n), panels = (n + width - 1) / width;
  parallel_for(panels, true, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t columns = std::min(width, n - p * width);
      const float* const from = b + p * width * b_col;
      float* const panel = to + p * width * k;
      if (columns < width) std::fill_n(panel, width * k, 0.0f);
      for (int64_t first = 0; first < k; first += kRows) {
        const int64_t last = std::min(first + kRows, k);
        if (b_col == 1) {
          for (int64_t i = first; i < last; ++i) std::copy_n(from + i * b_row, columns, panel + i * width);
        } else {
          for (int64_t j = 0; j < columns; ++j) {
            for (int64_t i = first; i < last; ++i) panel[i * width + j] = from[i * b_row + j * b_col];
          }
        }
      }
    }
  });
}

}  // namespace braid::rt
