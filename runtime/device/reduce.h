// Reductions over a warp or a block. All threads of the warp or block call them together and get the result.
// The order of the operations is fixed (butterfly within a warp, then over the warps), so the emulated device
// and a GPU apply the same operations to the same operands.
#pragma once

#include "runtime/device/math.h"
#include "runtime/device/pack.h"
#include "runtime/device/shared_memory.h"

namespace braid::rt::device {

template <class T>
struct Limits;
template <>
struct Limits<float> {
  static __device__ constexpr float lowest() { return -__builtin_huge_valf(); }
  static __device__ constexpr float highest() { return __builtin_huge_valf(); }
};
template <>
struct Limits<double> {
  static __device__ constexpr double lowest() { return -__builtin_huge_val(); }
  static __device__ constexpr double highest() { return __builtin_huge_val(); }
};
template <>
struct Limits<int> {
  static __device__ constexpr int lowest() { return -2147483647 - 1; }
  static __device__ constexpr int highest() { return 2147483647; }
};
template <>
struct Limits<long long> {
  static __device__ constexpr long long lowest() { return -9223372036854775807LL - 1; }
  static __device__ constexpr long long highest() { return 9223372036854775807LL; }
};
template <>
struct Limits<long> {  // int64_t of a 64-bit Linux
  static __device__ constexpr long lowest() { return -9223372036854775807L - 1; }
  static __device__ constexpr long highest() { return 9223372036854775807L; }
};
template <class T>
struct UnsignedLimits {
  static __device__ constexpr T lowest() { return 0; }
  static __device__ constexpr T highest() { return ~T(0); }
};
template <>
struct Limits<unsigned int> : UnsignedLimits<unsigned int> {};
template <>
struct Limits<unsigned long> : UnsignedLimits<unsigned long> {};  // uint64_t of a 64-bit Linux
template <>
struct Limits<unsigned long long> : UnsignedLimits<unsigned long long> {};

// An operation is a struct with a neutral element and a binary apply. Integers wrap. Maximum and Minimum
// propagate NaN, as ONNX's ReduceMax and ReduceMin do; for floats the GPU has an instruction, which differs
// in the sign of zero at most.
struct Sum {
  template <class T>
  static __device__ T neutral() {
    return T(0);
  }
  template <class T>
  static __device__ T apply(T a, T b) {
    return math::add(a, b);
  }
};
struct Product {
  template <class T>
  static __device__ T neutral() {
    return T(1);
  }
  template <class T>
  static __device__ T apply(T a, T b) {
    return math::mul(a, b);
  }
};
struct Maximum {
  template <class T>
  static __device__ T neutral() {
    return Limits<T>::lowest();
  }
  template <class T>
  static __device__ T apply(T a, T b) {
#ifndef BRAID_EMULATED_DEVICE
    if constexpr (std::is_same_v<T, float>) {
      float greater;
      asm("max.NaN.f32 %0, %1, %2;" : "=f"(greater) : "f"(a), "f"(b));
      return greater;
    }
#endif
    return a > b || a != a ? a : b;
  }
};
struct Minimum {
  template <class T>
  static __device__ T neutral() {
    return Limits<T>::highest();
  }
  template <class T>
  static __device__ T apply(T a, T b) {
#ifndef BRAID_EMULATED_DEVICE
    if constexpr (std::is_same_v<T, float>) {
      float less;
      asm("min.NaN.f32 %0, %1, %2;" : "=f"(less) : "f"(a), "f"(b));
      return less;
    }
#endif
    return a < b || a != a ? a : b;
  }
};

constexpr int kWarpSize = 32;
constexpr int kColumnParts = 8;  // warps that share the elements of the same columns

__device__ inline int thread_in_block() {
  return static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}
// Returns threadIdx.y in blocks whose rows are warps. The shuffle tells nvcc that all lanes have the same
// value, so that loops over it do not diverge.
__device__ inline int warp_in_block() {
#ifdef BRAID_EMULATED_DEVICE
  return static_cast<int>(threadIdx.y);
#else
  return static_cast<int>(__shfl_sync(0xffffffffu, threadIdx.y, 0));
#endif
}
__device__ inline int threads_per_block() { return static_cast<int>(blockDim.x * blockDim.y * blockDim.z); }

// Reduces over all 32 lanes of a full warp. The emulated device applies the butterfly's operations lane by
// lane in one call.
#ifdef BRAID_EMULATED_DEVICE
template <class Op, class T>
void butterfly(T* lanes) {
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
    T next[kWarpSize];
    for (int i = 0; i < kWarpSize; ++i) next[i] = Op::template apply<T>(lanes[i], lanes[i ^ distance]);
    for (int i = 0; i < kWarpSize; ++i) lanes[i] = next[i];
  }
}
template <class Op, class T>
__device__ T warp_reduce(T value) {
  return emulated::warp_combine<T, butterfly<Op, T>>("warp_reduce", {}, value);
}
#else
template <class Op, class T>
__device__ T warp_reduce(T value) {
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2)
    value = Op::template apply<T>(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
}
#endif

// Reduces over all threads of the block, whose size must be a multiple of 32.
template <class Op, class T>
__device__ T block_reduce(T value) {
  BRAID_SHARED(T, partial, kWarpSize);
  const int thread = thread_in_block();
  const int warps = threads_per_block() / kWarpSize;
  value = warp_reduce<Op, T>(value);
  if (warps == 1) return value;
  if (thread % kWarpSize == 0) partial[thread / kWarpSize] = value;
  __syncthreads();
  const int lane = thread % kWarpSize;
  value = lane < warps ? partial[lane] : Op::template neutral<T>();
  value = warp_reduce<Op, T>(value);
  __syncthreads();  // the next reduction overwrites `partial`
  return value;
}

// Reduces over the threads with the same threadIdx.x of a block of kWarpSize x kColumnParts, element by
// element and in the order of threadIdx.y.
template <class Op, class T, int n>
__device__ Pack<T, n> column_reduce(Pack<T, n> value) {
  using Elements = Pack<T, n>;
  BRAID_SHARED(Elements, parts, kColumnParts * kWarpSize);
  parts[kWarpSize * threadIdx.y + threadIdx.x] = value;
  __syncthreads();
  value = parts[threadIdx.x];
#pragma unroll
  for (int part = 1; part < kColumnParts; ++part) {
    const Pack<T, n> other = parts[kWarpSize * part + threadIdx.x];
#pragma unroll
    for (int e = 0; e < n; ++e) value.values[e] = Op::template apply<T>(value.values[e], other.values[e]);
  }
  __syncthreads();  // the next reduction overwrites `parts`
  return value;
}

}  // namespace braid::rt::device
