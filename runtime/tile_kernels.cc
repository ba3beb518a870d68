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

}  // namespace braid::rt
