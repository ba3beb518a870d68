// Conversions between storage types and the type in which kernels compute.
#pragma once

namespace braid::rt::device {

template <class T>
__host__ __device__ inline float to_float(T value) {
  return static_cast<float>(value);
}
template <>
__host__ __device__ inline float to_float<__half>(__half value) {
  return __half2float(value);
}
template <>
__host__ __device__ inline float to_float<__nv_bfloat16>(__nv_bfloat16 value) {
  return __bfloat162float(value);
}

// Rounds to nearest, ties to even.
template <class T>
__host__ __device__ inline T from_float(float value) {
  return static_cast<T>(value);
}
template <>
__host__ __device__ inline __half from_float<__half>(float value) {
  return __float2half(value);
}
template <>
__host__ __device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
  return __float2bfloat16(value);
}

}  // namespace braid::rt::device
