// The extern kernel `top_k` on the device (runtime/host/top_k.h says what it computes): each thread counts
// how many elements of its row come before its own. Quadratic in the length of a row.
#pragma once

#include "runtime/extern_kernel.h"
#include "runtime/extern_types.h"

namespace braid::rt::cuda {

template <class T>
__device__ inline bool top_k_before(T a, int64_t i, T b, int64_t j, bool largest) {
  const bool a_nan = a != a, b_nan = b != b;
  if (a_nan || b_nan) return a_nan != b_nan ? a_nan == largest : i < j;
  if (a == b) return i < j;
  return largest ? a > b : a < b;
}

template <class T>
__global__ void top_k_kernel(const T* x, int64_t n, int64_t k, bool largest, T* values, int64_t* positions) {
  const int64_t row = static_cast<int64_t>(blockIdx.x);
  const T* elements = x + row * n;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    int64_t place = 0;
    for (int64_t j = 0; j < n && place < k; ++j)
      place += top_k_before<T>(elements[j], j, elements[i], i, largest) ? 1 : 0;
    if (place >= k) continue;
    values[row * k + place] = elements[i];
    positions[row * k + place] = i;
  }
}

template <class T>
const char* top_k_rows(const BraidExternCall* call) {
  const BraidTensorView &x = call->reads[0], &values = call->writes[0], &positions = call->writes[1];
  const int64_t rows = x.sizes[0], n = x.sizes[1], k = values.sizes[1];
  const bool largest = braid_find_attribute(call, "largest", BRAID_INTEGER)->integer != 0;
  if (rows == 0 || k == 0) return nullptr;
  const cudaError_t error =
      BRAID_LAUNCH((top_k_kernel<T>), dim3(static_cast<unsigned>(rows)), dim3(256), 0,
                   static_cast<cudaStream_t>(call->stream), static_cast<const T*>(x.data), n, k, largest,
                   static_cast<T*>(values.data), static_cast<int64_t*>(positions.data));
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

inline const char* top_k(const BraidExternCall* call) {
  return for_element_type(call->reads[0].dtype, "top_k: element type not supported",
                          [&](auto type) { return top_k_rows<typename decltype(type)::type>(call); });
}

}  // namespace braid::rt::cuda
