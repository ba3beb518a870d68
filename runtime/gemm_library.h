// Declarations shared by gemm.cc and the file that calls oneDNN, or the one that replaces it in builds
// without oneDNN. Private to the runtime library.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/aligned_bytes.h"
#include "runtime/gemm.h"
#include "runtime/gemm_isa.h"
#include "runtime/team.h"

namespace braid::rt {

inline constexpr int64_t kManyRows =
    64;  // from here on sgemm is as fast on plain operands as others on packed ones

struct PackedMatrix::Impl {
  virtual ~Impl() = default;
  AlignedBytes bytes;
  size_t size = 0;
  Panels panels;  // width 0: another layout
};

// The kernels of this processor.
const GemmKernels& own_kernels();

// A library's kernels for packed and for plain f32 operands. Throws std::runtime_error with the library's
// message.
class LibraryGemm {
 public:
  virtual ~LibraryGemm() = default;
  // Null if the library would use b unchanged, or has nothing faster than for the plain matrix.
  virtual PackedMatrix::Impl* pack(int64_t k, int64_t n, const float* b, int64_t b_row, int64_t b_col,
                                   int64_t typical_m) = 0;
  // For one matrix whose columns are adjacent in a and c. Null if the packed layout does not suit the shape.
  virtual std::unique_ptr<GemmKernel> packed(const GemmShape& shape, const PackedMatrix::Impl& packed) = 0;
  // Null if the strides are not those of sgemm.
  virtual std::unique_ptr<GemmKernel> sgemm(const GemmShape& shape, int threads) = 0;
};
// Panels of a packed matrix that are read at once where there are few rows.
inline constexpr int64_t kStreamedPanels = 4;

// Null in a build without oneDNN.
std::unique_ptr<LibraryGemm> make_library_gemm();

}  // namespace braid::rt
