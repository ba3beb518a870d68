// The header that a generated CUDA program includes: device functions, the base of its class, and its table
// of functions. It is parsed once per architecture, so it includes few standard headers. The sources in
// runtime/cuda/ are built once and not with each program.
#pragma once

#include "runtime/cuda/instance.h"
#include "runtime/cuda_program.h"
#include "runtime/device/cheap_math.h"
#include "runtime/device/math.h"

namespace braid::rt::cuda {

using rt::attribute;
using rt::tensor_view;

template <class T>
T* at(const void* base, int64_t bytes) {
  return reinterpret_cast<T*>(const_cast<char*>(static_cast<const char*>(base)) + bytes);
}

// The architectures that nvcc was told to build the program for: 900 is sm_90.
#ifdef __CUDA_ARCH_LIST__
constexpr int kArchitectures[] = {__CUDA_ARCH_LIST__};
#else
constexpr int kArchitectures[] = {0};
#endif
constexpr int oldest_architecture() {
  int oldest = kArchitectures[0];
  for (int architecture : kArchitectures) oldest = architecture < oldest ? architecture : oldest;
  return oldest;
}

// Completes a table, whose data the generated source has filled in, with the functions.
template <class Program>
BraidCudaProgram make_program(BraidCudaProgram table) {
  set_functions(table);
  table.create = [](const BraidCudaCreateInfo* info, BraidCudaInstance** out) {
    return create_instance(info, out, []() -> Instance* { return new Program; });
  };
  return table;
}

}  // namespace braid::rt::cuda
