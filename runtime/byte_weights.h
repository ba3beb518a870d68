// Products of f32 rows with constant weights of 8-bit integers or halves, which are widened to f32 in
// registers: with few rows, reading the weights is all that counts. Private to the runtime library.
#pragma once

#include <memory>

#include "runtime/gemm_library.h"

namespace braid::rt {

// Elements as they are, [panel][k][64 columns], padded with zeros.
struct ByteWeights final : PackedMatrix::Impl {
  DType type = DType::i8;
};
ByteWeights* pack_byte_weights(DType type, int64_t k, int64_t n, const void* b, int64_t b_row, int64_t b_col);

// For adjacent columns of c, and k and n that are not 0.
std::unique_ptr<GemmKernel> make_byte_weights(const GemmShape& shape, int threads);

}  // namespace braid::rt
