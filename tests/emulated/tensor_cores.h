// Entry points of tensor_cores.cu: each runs one instruction of a warp on registers from the host, in the
// order of lanes. They return null, or the error of a call.
#pragma once

#include <cstdint>

enum class MmaCase { kHalf, kHalfSums, kBfloat16, kTf32, kInt8, kInt8Uint8, kUint8Int8, kUint8 };
// 4 registers of a lane in `a`, 2 in `b`, and 4 in `sums` (2 of kHalfSums), which are replaced.
const char* run_mma(MmaCase which, const uint32_t* a, const uint32_t* b, uint32_t* sums);

// The low 8 * matrices lanes name row lane of 8 elements, which lies at place[lane] of 32 rows of shared
// memory.
struct MatrixCase {
  int matrices = 4;  // 1, 2 or 4
  bool transposed = false;
  const int* place = nullptr;  // 32
};
// `rows`: the 32 x 8 elements by place. `registers`: 4 of a lane, of which those beyond `matrices` stay.
const char* run_ldmatrix(const MatrixCase& c, const uint16_t* rows, uint32_t* registers);
const char* run_stmatrix(const MatrixCase& c, const uint32_t* registers, uint16_t* rows);

enum class PairOp { kPack, kAdd, kMul, kFma, kMax };
// Element by element of n pairs. kPack: of the floats a and b; all others: of packed pairs.
const char* run_pairs(PairOp op, bool bfloat16, const uint32_t* a, const uint32_t* b, const uint32_t* c,
                      uint32_t* result, int n);
// Each of 32 threads copies 16 bytes of `source` to memory that holds 7s. `seen`: what lies there before the
// wait, then after it, 4 words of a thread each.
const char* run_copy_in_flight(const uint32_t* source, uint32_t* seen);
// to_tf32 of n floats.
const char* run_to_tf32(const float* x, uint32_t* result, int n);
