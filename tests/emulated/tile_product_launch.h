// Launches the kernel of tile_product_kernel.h on copies of a product's operands.
#pragma once

#include "tests/emulated/check.h"
#include "tests/emulated/tile_product_kernel.h"

namespace braid_cuda_tile_product {

template <class T, class Out, bool b_by_rows, int bytes, Mutation mutation>
__global__ void __launch_bounds__(kThreads) product_kernel(Operand a, Operand b, Out* c) {
  product<T, Out, b_by_rows, bytes, mutation>(a, b, c);
}

using Launch = cudaError_t (*)(const TileProduct&, void* a, void* b, void* c);

template <class T, class Out, bool b_by_rows, int bytes, Mutation mutation>
cudaError_t launch_product(const TileProduct& p, void* a, void* b, void* c) {
  BRAID_LABEL("node");
  const dim3 grid((p.n + kSide - 1) / kSide, (p.m + kSide - 1) / kSide);
  const Operand of_a{a, p.m, p.k, p.a_stride};
  const Operand of_b{b, b_by_rows ? p.k : p.n, b_by_rows ? p.n : p.k, p.b_stride};
  return braid::rt::cuda::launch("product_kernel", product_kernel<T, Out, b_by_rows, bytes, mutation>, grid,
                                 kThreads, 0, nullptr, of_a, of_b, static_cast<Out*>(c));
}

inline const char* run(const TileProduct& p, Launch launch) {
  void *a = nullptr, *b = nullptr, *c = nullptr;
  CHECK_CUDA(cudaMalloc(&a, p.a_bytes));
  CHECK_CUDA(cudaMalloc(&b, p.b_bytes));
  CHECK_CUDA(cudaMalloc(&c, p.c_bytes));
  CHECK_CUDA(cudaMemcpy(a, p.a, p.a_bytes, cudaMemcpyHostToDevice));
  CHECK_CUDA(cudaMemcpy(b, p.b, p.b_bytes, cudaMemcpyHostToDevice));
  CHECK_CUDA(launch(p, a, b, c));
  const cudaError_t ended = cudaDeviceSynchronize();
  if (ended == cudaSuccess) CHECK_CUDA(cudaMemcpy(p.c, c, p.c_bytes, cudaMemcpyDeviceToHost));
  CHECK_CUDA(cudaFree(a));
  CHECK_CUDA(cudaFree(b));
  CHECK_CUDA(cudaFree(c));
  return ended == cudaSuccess ? nullptr : cudaGetErrorName(ended);
}

}  // namespace braid_cuda_tile_product
