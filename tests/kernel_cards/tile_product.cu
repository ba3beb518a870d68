// Products on tensor cores, for their cards: the kernels of tests/emulated/tile_product_kernel.h without
// mutations, and tiles of programs (runtime/device/tile_product.h) with a bias.
#include "runtime/cuda_program.h"
#include "runtime/device/math.h"
#include "runtime/device/tile_product.h"
#include "tests/emulated/tile_product_kernel.h"

namespace braid_cuda_tile_product {

template <class T, class Out>
__device__ void right_product(const Operand& a, const Operand& b, Out* c) {
  product<T, Out, false, 16, Mutation::kNone>(a, b, c);
}
__global__ void __launch_bounds__(kThreads) product_f16(Operand a, Operand b, __half* c) {
  right_product<__half>(a, b, c);
}
__global__ void __launch_bounds__(kThreads) product_f16_by_rows(Operand a, Operand b, __half* c) {
  product<__half, __half, true, 16, Mutation::kNone>(a, b, c);
}
__global__ void __launch_bounds__(kThreads) product_bf16(Operand a, Operand b, __nv_bfloat16* c) {
  right_product<__nv_bfloat16>(a, b, c);
}
__global__ void __launch_bounds__(kThreads) product_tf32(Operand a, Operand b, float* c) {
  right_product<Tf32>(a, b, c);
}
__global__ void __launch_bounds__(kThreads) product_s8(Operand a, Operand b, int* c) {
  right_product<int8_t>(a, b, c);
}

template <class Tile, class A, class B, class T>
__device__ void with_bias(const T* a, const T* b, const T* bias, T* c, int m, int n, int k) {
  const ResultSizes sizes{m, n};
  const auto store = [&](int row, int column, const float(&sums)[kChunkElements]) {
    const auto added = load_pack<kChunkElements>(bias + column);
    Pack<T, kChunkElements> results;
    for (int e = 0; e < kChunkElements; ++e)
      results.values[e] = math::convert<T>(sums[e] + math::convert<float>(added.values[e]));
    store_pack(c + static_cast<int64_t>(row) * n + column, results);
  };
  tile_product<Tile>(A{a, A::kAlongDepth ? k : m, m}, B{b, B::kAlongDepth ? k : n, n}, k,
                     tile_place<Tile>(sizes), sizes, store);
}
#define TILE_KERNEL(name, T, Tile, A, B)                                       \
  __global__ void __launch_bounds__(Tile::kThreads)                            \
      name(const T* a, const T* b, const T* bias, T* c, int m, int n, int k) { \
    with_bias<Tile, A<T>, B<T>>(a, b, bias, c, m, n, k);                       \
  }
TILE_KERNEL(tile_large_f16, __half, LargeTile, RowsAlongDepth, RowsAlongDepth)
TILE_KERNEL(tile_large_bf16, __nv_bfloat16, LargeTile, RowsAlongDepth, RowsAlongDepth)
TILE_KERNEL(tile_large_f16_by_rows, __half, LargeTile, RowsAlongDepth, RowsAcrossDepth)
TILE_KERNEL(tile_small_f16, __half, SmallTile, RowsAlongDepth, RowsAlongDepth)
TILE_KERNEL(tile_small_f16_by_rows, __half, SmallTile, RowsAlongDepth, RowsAcrossDepth)
TILE_KERNEL(tile_tall_f16, __half, TallTile, RowsAlongDepth, RowsAlongDepth)
TILE_KERNEL(tile_flat_f16, __half, FlatTile, RowsAlongDepth, RowsAlongDepth)
#undef TILE_KERNEL

// A convolution of 3 x 3 taps over 128 channels.
template <class Tile>
__device__ void windows(const __half* x, const __half* w, __half* y, int images, int side, int filters) {
  const ResultSizes sizes{images * side * side, filters};
  const ImageWindows<__half> a{.data = x,
                               .lines = sizes.rows,
                               .channels = 128,
                               .image = side * side * 128,
                               .step = {side * 128, 128},
                               .size = {side, side},
                               .out = {side, side},
                               .taps = {3, 3},
                               .stride = {1, 1},
                               .dilation = {1, 1},
                               .pad = {1, 1}};
  const auto store = [&](int row, int column, const float(&sums)[kChunkElements]) {
    Pack<__half, kChunkElements> results;
    for (int e = 0; e < kChunkElements; ++e) results.values[e] = math::convert<__half>(sums[e]);
    store_pack(y + static_cast<int64_t>(row) * filters + column, results);
  };
  tile_product<Tile>(a, RowsAlongDepth<__half>{w, 1152, filters}, 1152, tile_place<Tile>(sizes), sizes,
                     store);
}
__global__ void __launch_bounds__(128)
    tile_large_windows(const __half* x, const __half* w, __half* y, int images, int side, int filters) {
  windows<LargeTile>(x, w, y, images, side, filters);
}
__global__ void __launch_bounds__(64)
    tile_tall_windows(const __half* x, const __half* w, __half* y, int images, int side, int filters) {
  windows<TallTile>(x, w, y, images, side, filters);
}
__global__ void __launch_bounds__(64)
    tile_small_windows(const __half* x, const __half* w, __half* y, int images, int side, int filters) {
  windows<SmallTile>(x, w, y, images, side, filters);
}

// Their launches, of which a card tells the threads.
void launch_each(dim3 grid, cudaStream_t stream, Operand a, Operand b, void* c) {
  (void)BRAID_LAUNCH(product_f16, grid, 128, 0, stream, a, b, static_cast<__half*>(c));
  (void)BRAID_LAUNCH(product_f16_by_rows, grid, 128, 0, stream, a, b, static_cast<__half*>(c));
  (void)BRAID_LAUNCH(product_bf16, grid, 128, 0, stream, a, b, static_cast<__nv_bfloat16*>(c));
  (void)BRAID_LAUNCH(product_tf32, grid, 128, 0, stream, a, b, static_cast<float*>(c));
  (void)BRAID_LAUNCH(product_s8, grid, 128, 0, stream, a, b, static_cast<int*>(c));
}
void launch_tiles(dim3 grid, cudaStream_t stream, const __half* a, const __half* b, const __half* bias,
                  __half* c, const __nv_bfloat16* x, __nv_bfloat16* y, int m, int n, int k) {
  (void)BRAID_LAUNCH(tile_large_f16, grid, 128, LargeTile::kSharedBytes, stream, a, b, bias, c, m, n, k);
  (void)BRAID_LAUNCH(tile_large_f16_by_rows, grid, 128, LargeTile::kSharedBytes, stream, a, b, bias, c, m, n,
                     k);
  (void)BRAID_LAUNCH(tile_large_bf16, grid, 128, LargeTile::kSharedBytes, stream, x, x, x, y, m, n, k);
  (void)BRAID_LAUNCH(tile_small_f16, grid, 64, SmallTile::kSharedBytes, stream, a, b, bias, c, m, n, k);
  (void)BRAID_LAUNCH(tile_small_f16_by_rows, grid, 64, SmallTile::kSharedBytes, stream, a, b, bias, c, m, n,
                     k);
  (void)BRAID_LAUNCH(tile_large_windows, grid, 128, LargeTile::kSharedBytes, stream, a, b, c, m, n, k);
  (void)BRAID_LAUNCH(tile_tall_f16, grid, 64, TallTile::kSharedBytes, stream, a, b, bias, c, m, n, k);
  (void)BRAID_LAUNCH(tile_tall_windows, grid, 64, TallTile::kSharedBytes, stream, a, b, c, m, n, k);
  (void)BRAID_LAUNCH(tile_small_windows, grid, 64, SmallTile::kSharedBytes, stream, a, b, c, m, n, k);
  (void)BRAID_LAUNCH(tile_flat_f16, grid, 64, FlatTile::kSharedBytes, stream, a, b, bias, c, m, n, k);
}

}  // namespace braid_cuda_tile_product
