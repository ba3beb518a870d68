// Products of halves (f16 or bf16) with constant weights of the same type and sums in f32. Private to the
// runtime library.
//
//   bf16 tiles      bf16 on processors with AVX-512 BF16: one instruction adds two products to each of
//                   sixteen sums; with AMX, where there are more than 6 rows, 32 products to each of 256 sums
//   widened halves  otherwise: rows become f32 once, weights in registers or a panel at a time
//                   (byte_weights.h)
//
// Both add the products in order of k; AMX adds those of even and of odd k separately. The instructions round
// to nearest even and take numbers below 2^-126 as 0, so results of the three differ by roundings.
#pragma once

#include <memory>

#include "runtime/gemm_library.h"

namespace braid::rt {

// Returns whether the processor has AVX-512 BF16. BRAID_HALF_KERNELS=widened disables it, in order to test
// programs without it; =avx512 only disables AMX.
bool has_bf16_units();
// Whether more than a few rows are multiplied by AMX.
bool has_bf16_matrix_units();

// Numbers with strides of so many elements.
void to_floats(DType type, const uint16_t* from, int64_t from_step, int64_t count, float* to);
void to_halves(DType type, const float* from, int64_t from_step, int64_t count, uint16_t* to,
               int64_t to_step);

PackedMatrix::Impl* pack_halves(DType type, int64_t k, int64_t n, const void* b, int64_t b_row,
                                int64_t b_col);

// For k and n that are not 0. Null if the columns of c are not adjacent.
std::unique_ptr<GemmKernel> make_half_gemm(const GemmShape& shape, int threads);

// Pairs of rows of b, in panels of 64 columns that are padded with zeros: element (k, n) at
// ((n / 64 * pairs + k / 2) * 64 + n % 64) * 2 + k % 2.
struct Bf16Panels {
  const uint16_t* data = nullptr;
  int64_t pairs = 0;          // (k + 1) / 2
  bool matrix_units = false;  // whether AMX multiplies more than a few rows
};
struct Bf16Kernels {
  // Rows [row_begin, row_end) of one matrix, panels [column_begin, column_end). `a` has adjacent columns; c
  // and operands of the epilogue are those of `args`.
  void (*multiply)(const GemmShape& shape, const GemmArgs& args, const uint16_t* a, int64_t a_row,
                   const Bf16Panels& b, int64_t row_begin, int64_t row_end, int64_t column_begin,
                   int64_t column_end);
  // sums[r][j] = the sum over i < k of a[r][i] * b[i][j], for a panel b of 64 columns. `sums` is aligned to
  // 64 bytes.
  void (*multiply_panel)(const uint16_t* a, int64_t a_row, int64_t rows, int64_t k, const uint16_t* b,
                         bool matrix_units, float* sums);
};
#ifdef __x86_64__
namespace avx512 {
extern const Bf16Kernels kBf16Kernels;  // only with AVX-512 BF16
}
#endif

}  // namespace braid::rt
