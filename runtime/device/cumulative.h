// The extern kernel `cumulative` on the device (runtime/host/cumulative.h says what it computes): each thread
// carries one result along the axis, in order.
#pragma once

#include "runtime/extern_kernel.h"
#include "runtime/extern_types.h"

namespace braid::rt::cuda {

struct CumulativeShape {
  int64_t outer, n, inner;
  bool exclusive, reverse;
};

template <bool product, class T>
__device__ inline T cumulative_step(T carry, T x) {
  if constexpr (T(0.5) != T(0)) {
    return product ? carry * x : carry + x;
  } else {  // integers wrap
    const uint64_t a = static_cast<uint64_t>(carry), b = static_cast<uint64_t>(x);
    return static_cast<T>(product ? a * b : a + b);
  }
}

template <bool product, class T>
__global__ void cumulative_kernel(const T* x, T* y, CumulativeShape s) {
  const int64_t lane = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (lane >= s.outer * s.inner) return;
  int64_t at = lane / s.inner * s.n * s.inner + lane % s.inner;
  if (s.reverse) at += (s.n - 1) * s.inner;
  T carry = product ? T(1) : T(0);
  for (int64_t i = 0; i < s.n; ++i) {
    const T before = carry;
    carry = cumulative_step<product>(carry, x[at]);
    y[at] = s.exclusive ? before : carry;
    at += s.reverse ? -s.inner : s.inner;
  }
}

template <bool product, class T>
const char* cumulative_all(const BraidExternCall* call) {
  const int64_t* sizes = call->reads[0].sizes;
  const CumulativeShape s = {sizes[0], sizes[1], sizes[2],
                             braid_find_attribute(call, "exclusive", BRAID_INTEGER)->integer != 0,
                             braid_find_attribute(call, "reverse", BRAID_INTEGER)->integer != 0};
  const int64_t lanes = s.outer * s.inner;
  if (lanes * s.n == 0) return nullptr;
  constexpr int64_t kThreads = 128;
  const cudaError_t error = BRAID_LAUNCH(
      (cumulative_kernel<product, T>), dim3(static_cast<unsigned>((lanes + kThreads - 1) / kThreads)),
      dim3(kThreads), 0, static_cast<cudaStream_t>(call->stream), static_cast<const T*>(call->reads[0].data),
      static_cast<T*>(call->writes[0].data), s);
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

template <class T>
const char* cumulative_of(const BraidExternCall* call) {
  const bool product = braid_find_attribute(call, "product", BRAID_INTEGER)->integer != 0;
  return product ? cumulative_all<true, T>(call) : cumulative_all<false, T>(call);
}

inline const char* cumulative(const BraidExternCall* call) {
  return for_element_type(call->reads[0].dtype, "cumulative: element type not supported",
                          [&](auto type) { return cumulative_of<typename decltype(type)::type>(call); });
}

}  // namespace braid::rt::cuda
