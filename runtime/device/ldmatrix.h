// Matrices of 8 x 8 elements of 16 bits between shared memory and the registers of a warp: ldmatrix and
// stmatrix of PTX, for sm_80 and later. stmatrix is one instruction from sm_90 on, and ordinary stores
// before.
//
//   MmaA a;
//   ldmatrix<4>(a.registers, row of lane % 16, columns from 8 * (lane / 16));
//
// All 32 lanes of a warp call it together, for 1, 2 or 4 matrices. Lane 8 * i + r names row r of matrix i:
// 16 bytes of shared memory, aligned to 16. Other lanes name no rows, and their addresses are ignored.
// Register i of a lane holds two elements of matrix i, the first in the low bits:
//
//   elements 2 * (lane % 4) and the next of row lane / 4;
//   transposed: those of rows 2 * (lane % 4) and the next of column lane / 4
//
// (PTX ISA, "ldmatrix" and "stmatrix"). Without `transposed` a row may hold elements of any size: a register
// takes 4 bytes of it. So 4 matrices are the a of an mma_sync, of 16 rows of 32 bytes, and 2 are its b, of 8
// columns of 32 bytes.
//
// Neither orders memory: a barrier must lie between a lane that writes a row and another that names it.
#pragma once

#include <cstdint>

#include "runtime/device/shared_memory.h"

namespace braid::rt::device {

#ifdef BRAID_EMULATED_DEVICE

template <int matrices, bool transposed = false>
void ldmatrix(uint32_t* registers, const void* row, emulated::Place place = emulated::here()) {
  static_assert(matrices == 1 || matrices == 2 || matrices == 4);
  emulated::load_matrices(place, matrices, transposed, row, registers);
}

template <int matrices, bool transposed = false>
void stmatrix(void* row, const uint32_t* registers, emulated::Place place = emulated::here()) {
  static_assert(matrices == 1 || matrices == 2 || matrices == 4);
  emulated::store_matrices(place, matrices, transposed, row, registers);
}

#else

#define BRAID_LDMATRIX(form, outputs, ...) \
  asm volatile("ldmatrix.sync.aligned.m8n8." form ".shared.b16 " outputs:__VA_ARGS__ : "r"(from) : "memory")

template <int matrices, bool transposed = false>
__device__ void ldmatrix(uint32_t* r, const void* row) {
  static_assert(matrices == 1 || matrices == 2 || matrices == 4);
  const uint32_t from = shared_address(row);
  if constexpr (matrices == 1 && !transposed)
    BRAID_LDMATRIX("x1", "{%0}, [%1];", "=r"(r[0]));
  else if constexpr (matrices == 1)
    BRAID_LDMATRIX("x1.trans", "{%0}, [%1];", "=r"(r[0]));
  else if constexpr (matrices == 2 && !transposed)
    BRAID_LDMATRIX("x2", "{%0, %1}, [%2];", "=r"(r[0]), "=r"(r[1]));
  else if constexpr (matrices == 2)
    BRAID_LDMATRIX("x2.trans", "{%0, %1}, [%2];", "=r"(r[0]), "=r"(r[1]));
  else if constexpr (!transposed)
    BRAID_LDMATRIX("x4", "{%0, %1, %2, %3}, [%4];", "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]));
  else
    BRAID_LDMATRIX("x4.trans", "{%0, %1, %2, %3}, [%4];", "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]));
}
#undef BRAID_LDMATRIX

#define BRAID_STMATRIX(form, inputs, ...) \
  asm volatile("stmatrix.sync.aligned.m8n8." form ".shared.b16 " inputs ::"r"(to), __VA_ARGS__ : "memory")

template <int matrices, bool transposed = false>
__device__ void stmatrix(void* row, const uint32_t* r) {
  static_assert(matrices == 1 || matrices == 2 || matrices == 4);
#if __CUDA_ARCH__ >= 900
  const uint32_t to = shared_address(row);
  if constexpr (matrices == 1 && !transposed)
    BRAID_STMATRIX("x1", "[%0], {%1};", "r"(r[0]));
  else if constexpr (matrices == 1)
    BRAID_STMATRIX("x1.trans", "[%0], {%1};", "r"(r[0]));
  else if constexpr (matrices == 2 && !transposed)
    BRAID_STMATRIX("x2", "[%0], {%1, %2};", "r"(r[0]), "r"(r[1]));
  else if constexpr (matrices == 2)
    BRAID_STMATRIX("x2.trans", "[%0], {%1, %2};", "r"(r[0]), "r"(r[1]));
  else if constexpr (!transposed)
    BRAID_STMATRIX("x4", "[%0], {%1, %2, %3, %4};", "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]));
  else
    BRAID_STMATRIX("x4.trans", "[%0], {%1, %2, %3, %4};", "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]));
#else
  // The address of a row is another lane's, which counts as the one that writes the row.
  __syncwarp();
  const uint32_t mine = shared_address(row);
  int lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
#pragma unroll
  for (int i = 0; i < matrices; ++i) {
    if constexpr (!transposed) {
      const uint32_t to = __shfl_sync(0xffffffffu, mine, 8 * i + lane / 4) + lane % 4 * 4;
      asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(r[i]) : "memory");
    } else {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t to = __shfl_sync(0xffffffffu, mine, 8 * i + 2 * (lane % 4) + half) + lane / 4 * 2;
        asm volatile("st.shared.b16 [%0], %1;" ::"r"(to), "h"(static_cast<uint16_t>(r[i] >> 16 * half))
                     : "memory");
      }
    }
  }
  __syncwarp();
#endif
}
#undef BRAID_STMATRIX

#endif

}  // namespace braid::rt::device
