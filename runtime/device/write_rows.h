// The extern kernel `write_rows` on the device (runtime/host/write_rows.h says what it computes): one thread
// per element.
#pragma once

#include "runtime/dtype.h"
#include "runtime/extern_kernel.h"

namespace braid::rt::cuda {

// Element `n` of the view, in row-major order: its indices, and where it lies.
inline __device__ int64_t element_of(const BraidTensorView& view, int64_t n, int64_t* at) {
  int64_t offset = 0;
  for (int d = view.rank; d-- > 0;) {
    at[d] = n % view.sizes[d];
    n /= view.sizes[d];
    offset += at[d] * view.strides[d];
  }
  return offset;
}

template <class T>
__global__ void copy_cache_kernel(BraidTensorView old, BraidTensorView out, int64_t count) {
  const int64_t n = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (n >= count) return;
  int64_t at[BRAID_EXTERN_MAX_RANK];
  const int64_t from = element_of(old, n, at);
  static_cast<T*>(out.data)[element_of(out, n, at)] = static_cast<const T*>(old.data)[from];
}

template <class T>
__global__ void write_rows_kernel(BraidTensorView rows, const int64_t* first, int64_t first_stride,
                                  BraidTensorView out, int axis, int ring, int64_t count) {
  const int64_t n = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (n >= count) return;
  int64_t at[BRAID_EXTERN_MAX_RANK];
  const int64_t from = element_of(rows, n, at);
  const int64_t size = out.sizes[axis];
  int64_t position = first[at[0] * first_stride] + at[axis];
  if (ring != 0) position = (position % size + size) % size;
  if (position < 0 || position >= size) return;
  at[axis] = position;
  int64_t to = 0;
  for (int d = 0; d < out.rank; ++d) to += at[d] * out.strides[d];
  static_cast<T*>(out.data)[to] = static_cast<const T*>(rows.data)[from];
}

// Zeros where a cache that grows has neither a row nor, before the first one, an element of the old cache.
template <class T>
__global__ void zero_rows_kernel(BraidTensorView out, const int64_t* first, int64_t first_stride, int64_t had,
                                 int64_t rows, int axis, int64_t count) {
  const int64_t n = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (n >= count) return;
  int64_t at[BRAID_EXTERN_MAX_RANK];
  const int64_t to = element_of(out, n, at);
  const int64_t begin = first[at[0] * first_stride], position = at[axis];
  if (position < begin ? position >= had : position >= begin + rows) static_cast<T*>(out.data)[to] = 0;
}

template <class T>
cudaError_t write_rows_of(const BraidExternCall* call, int axis, int ring, int grows) {
  const BraidTensorView &old = call->reads[0], &rows = call->reads[1], &first = call->reads[2],
                        &out = call->writes[0];
  constexpr int64_t kThreads = 256;
  const auto stream = static_cast<cudaStream_t>(call->stream);
  const auto elements = [](const BraidTensorView& view) {
    int64_t n = 1;
    for (int d = 0; d < view.rank; ++d) n *= view.sizes[d];
    return n;
  };
  const auto blocks = [](int64_t n) { return dim3(static_cast<unsigned>((n + kThreads - 1) / kThreads)); };
  const int64_t all = elements(out), count = elements(rows), before = elements(old);
  if (before > 0 && out.data != old.data) {
    const cudaError_t error =
        BRAID_LAUNCH(copy_cache_kernel<T>, blocks(before), dim3(kThreads), 0, stream, old, out, before);
    if (error != cudaSuccess) return error;
  }
  if (all > 0 && grows != 0) {
    const cudaError_t error = BRAID_LAUNCH(zero_rows_kernel<T>, blocks(all), dim3(kThreads), 0, stream, out,
                                           static_cast<const int64_t*>(first.data), first.strides[0],
                                           old.sizes[axis], rows.sizes[axis], axis, all);
    if (error != cudaSuccess) return error;
  }
  if (count == 0 || all == 0) return cudaSuccess;
  return BRAID_LAUNCH(write_rows_kernel<T>, blocks(count), dim3(kThreads), 0, stream, rows,
                      static_cast<const int64_t*>(first.data), first.strides[0], out, axis, ring, count);
}

inline const char* write_rows(const BraidExternCall* call) {
  const int axis = static_cast<int>(braid_find_attribute(call, "axis", BRAID_INTEGER)->integer),
            ring = braid_find_attribute(call, "ring", BRAID_INTEGER)->integer != 0 ? 1 : 0;
  const BraidAttribute* attribute = braid_find_attribute(call, "grows", BRAID_INTEGER);
  const int grows = attribute != nullptr && attribute->integer != 0 ? 1 : 0;
  cudaError_t error = cudaSuccess;
  switch (size_of(static_cast<DType>(call->writes[0].dtype))) {
    case 1:
      error = write_rows_of<uint8_t>(call, axis, ring, grows);
      break;
    case 2:
      error = write_rows_of<uint16_t>(call, axis, ring, grows);
      break;
    case 4:
      error = write_rows_of<uint32_t>(call, axis, ring, grows);
      break;
    default:
      error = write_rows_of<uint64_t>(call, axis, ring, grows);
  }
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace braid::rt::cuda
