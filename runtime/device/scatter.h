// The extern kernel `scatter` on the device (runtime/host/scatter.h says what it computes). Replacing: the
// threads of a block search the last update of one row. Combining: each thread goes through the updates of
// its element in order. Neither depends on timing; both are quadratic in rows and updates.
#pragma once

#include "runtime/device/shared_memory.h"
#include "runtime/extern_kernel.h"

namespace braid::rt::cuda {

constexpr int kScatterThreads = 256;

struct ScatterShape {
  int64_t blocks, rows, width, updates;
};

enum class ScatterReduction { replace, add, mul, max, min };

template <class T>
__global__ void scatter_last_kernel(const T* data, const int64_t* positions, const T* updates, T* out,
                                    ScatterShape s) {
  BRAID_SHARED(int64_t, scatter_last, kScatterThreads);
  const int64_t row = static_cast<int64_t>(blockIdx.x), block = row / s.rows, here = row % s.rows;
  int64_t mine = -1;
  for (int64_t k = threadIdx.x; k < s.updates; k += kScatterThreads) {
    if (positions[block * s.updates + k] == here) mine = k;
  }
  scatter_last[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned half = kScatterThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half && scatter_last[threadIdx.x + half] > scatter_last[threadIdx.x])
      scatter_last[threadIdx.x] = scatter_last[threadIdx.x + half];
    __syncthreads();
  }
  const int64_t last = scatter_last[0];
  if (last < 0 && data == out) return;
  const T* from = last < 0 ? data + row * s.width : updates + (block * s.updates + last) * s.width;
  for (int64_t j = threadIdx.x; j < s.width; j += kScatterThreads) out[row * s.width + j] = from[j];
}

template <class T, ScatterReduction reduction>
__device__ inline T scatter_combined(T old, T update) {
  if constexpr (reduction == ScatterReduction::max) return old > update || old != old ? old : update;
  if constexpr (reduction == ScatterReduction::min) return old < update || old != old ? old : update;
  if constexpr (T(0.5) != T(0)) {
    return reduction == ScatterReduction::add ? old + update : old * update;
  } else {  // integers wrap
    const uint64_t a = static_cast<uint64_t>(old), b = static_cast<uint64_t>(update);
    return static_cast<T>(reduction == ScatterReduction::add ? a + b : a * b);
  }
}

template <class T, ScatterReduction reduction>
__global__ void scatter_combine_kernel(const T* data, const int64_t* positions, const T* updates, T* out,
                                       ScatterShape s) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= s.blocks * s.rows * s.width) return;
  const int64_t row = at / s.width, block = row / s.rows, here = row % s.rows;
  T value = data[at];
  for (int64_t k = 0; k < s.updates; ++k) {
    const int64_t update = block * s.updates + k;
    if (positions[update] == here)
      value = scatter_combined<T, reduction>(value, updates[update * s.width + at % s.width]);
  }
  out[at] = value;
}

inline ScatterShape scatter_shape(const BraidExternCall* call) {
  const int64_t* sizes = call->writes[0].sizes;
  return {sizes[0], sizes[1], sizes[2], call->reads[1].sizes[1]};
}

template <class T>
const char* scatter_replaced(const BraidExternCall* call) {
  const ScatterShape s = scatter_shape(call);
  if (s.blocks * s.rows * s.width == 0) return nullptr;
  const cudaError_t error = BRAID_LAUNCH(
      (scatter_last_kernel<T>), dim3(static_cast<unsigned>(s.blocks * s.rows)), dim3(kScatterThreads), 0,
      static_cast<cudaStream_t>(call->stream), static_cast<const T*>(call->reads[0].data),
      static_cast<const int64_t*>(call->reads[1].data), static_cast<const T*>(call->reads[2].data),
      static_cast<T*>(call->writes[0].data), s);
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

template <class T, ScatterReduction reduction>
const char* scatter_combined_with(const BraidExternCall* call) {
  const ScatterShape s = scatter_shape(call);
  const int64_t count = s.blocks * s.rows * s.width;
  if (count == 0) return nullptr;
  const cudaError_t error = BRAID_LAUNCH(
      (scatter_combine_kernel<T, reduction>),
      dim3(static_cast<unsigned>((count + kScatterThreads - 1) / kScatterThreads)), dim3(kScatterThreads), 0,
      static_cast<cudaStream_t>(call->stream), static_cast<const T*>(call->reads[0].data),
      static_cast<const int64_t*>(call->reads[1].data), static_cast<const T*>(call->reads[2].data),
      static_cast<T*>(call->writes[0].data), s);
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

// `mode` is the attribute: none, add, mul, max or min.
template <class T>
const char* scatter_reduced(const BraidExternCall* call, const char* mode) {
  if (mode[0] == 'a') return scatter_combined_with<T, ScatterReduction::add>(call);
  if (mode[1] == 'u') return scatter_combined_with<T, ScatterReduction::mul>(call);
  if (mode[1] == 'a') return scatter_combined_with<T, ScatterReduction::max>(call);
  return scatter_combined_with<T, ScatterReduction::min>(call);
}

inline const char* scatter(const BraidExternCall* call) {
  const char* const mode = braid_find_attribute(call, "reduction", BRAID_TEXT)->text;
  const bool replace = mode[0] == 'n';
  switch (call->reads[0].dtype) {
    case BRAID_F32:
      return replace ? scatter_replaced<float>(call) : scatter_reduced<float>(call, mode);
    case BRAID_F64:
      return replace ? scatter_replaced<double>(call) : scatter_reduced<double>(call, mode);
    case BRAID_I8:
      return replace ? scatter_replaced<int8_t>(call) : scatter_reduced<int8_t>(call, mode);
    case BRAID_U8:
      return replace ? scatter_replaced<uint8_t>(call) : scatter_reduced<uint8_t>(call, mode);
    case BRAID_I16:
      return replace ? scatter_replaced<int16_t>(call) : scatter_reduced<int16_t>(call, mode);
    case BRAID_U16:
      return replace ? scatter_replaced<uint16_t>(call) : scatter_reduced<uint16_t>(call, mode);
    case BRAID_I32:
      return replace ? scatter_replaced<int32_t>(call) : scatter_reduced<int32_t>(call, mode);
    case BRAID_U32:
      return replace ? scatter_replaced<uint32_t>(call) : scatter_reduced<uint32_t>(call, mode);
    case BRAID_I64:
      return replace ? scatter_replaced<int64_t>(call) : scatter_reduced<int64_t>(call, mode);
    case BRAID_U64:
      return replace ? scatter_replaced<uint64_t>(call) : scatter_reduced<uint64_t>(call, mode);
    case BRAID_F16:
    case BRAID_BF16:
      return scatter_replaced<uint16_t>(call);
    default:
      return scatter_replaced<uint8_t>(call);
  }
}

}  // namespace braid::rt::cuda
