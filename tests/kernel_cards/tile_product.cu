// The kernels of tests/emulated/tile_product_kernel.h without mutations, for their cards.
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

// Their launches, of which a card tells the threads.
void launch_each(dim3 grid, cudaStream_t stream, Operand a, Operand b, void* c) {
  (void)BRAID_LAUNCH(product_f16, grid, 128, 0, stream, a, b, static_cast<__half*>(c));
  (void)BRAID_LAUNCH(product_f16_by_rows, grid, 128, 0, stream, a, b, static_cast<__half*>(c));
  (void)BRAID_LAUNCH(product_bf16, grid, 128, 0, stream, a, b, static_cast<__nv_bfloat16*>(c));
  (void)BRAID_LAUNCH(product_tf32, grid, 128, 0, stream, a, b, static_cast<float*>(c));
  (void)BRAID_LAUNCH(product_s8, grid, 128, 0, stream, a, b, static_cast<int*>(c));
}

}  // namespace braid_cuda_tile_product
