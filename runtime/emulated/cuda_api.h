// The CUDA runtime API of the emulated device: types and functions under CUDA's own names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime/emulated/vector_types.h"

#define BRAID_EMULATED_API extern "C"
#include "runtime/emulated/cuda_declarations.inc"
#undef BRAID_EMULATED_API

template <class T>
inline cudaError_t cudaMalloc(T** pointer, size_t size) {
  return cudaMalloc(reinterpret_cast<void**>(pointer), size);
}
template <class T>
inline cudaError_t cudaMallocHost(T** pointer, size_t size) {
  return cudaMallocHost(reinterpret_cast<void**>(pointer), size);
}
template <class T>
inline cudaError_t cudaFuncSetAttribute(T* function, cudaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(function), attribute, value);
}
