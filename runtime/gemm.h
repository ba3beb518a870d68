// Matrix multiplication of generated CPU programs:
//
//   c[batch..., m, n] = epilogue(sum_k a[batch..., m, k] * b[batch..., k, n])
//
// over strided operands. f32 products go through one register-blocked kernel over b in panels: constant matrices are
// packed into panels once, when an instance is created, whatever the number of rows later; others panel by panel while
// they are multiplied. A few rows times an unpacked b, all other types and odd strides go through plain vector loops.
// Nothing but the choice among these depends on the actual shape, so `prepare` for a new shape costs microseconds.
//
// Measured beside oneDNN 2.6.3's matmul with prepacked weights (its own layout per shape, several allocations per call):
// equal within noise from 1 x 768 x 768 to 1024^3.
//
// The kernels are templates in gemm_kernels.h; they are compiled with the generated program, for the machine that it is
// compiled for, and handed in as function pointers (HostGemm).
#pragma once

#include <array>
#include <cstddef>
#include <compare>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "runtime/dtype.h"

namespace braid::rt {

inline constexpr int kMaxGemmBatchRank = 6;
inline constexpr int kMaxPostOps = 4;

// What happens to the sum before it is stored, in this order. The vector has n elements; the matrix is laid out like c
// (it may be c itself). Both have c's type.
enum class PostOp : uint8_t { none, scale, add_vector, add_matrix, relu, gelu_tanh, gelu_erf, tanh, sigmoid };
struct Epilogue {
  std::array<PostOp, kMaxPostOps> ops = {};
  float scale = 1.0f;
  friend auto operator<=>(const Epilogue&, const Epilogue&) = default;
  bool empty() const { return ops[0] == PostOp::none; }
};

// Strides count elements. Batch dimensions outermost first; unused ones are left 1 with stride 0.
struct GemmShape {
  DType type = DType::f32;    // of a and b
  DType c_type = DType::f32;  // as `type`, or what sums are accumulated in: f32 (halves), i32 (integers)
  int64_t m = 0, n = 0, k = 0;
  int64_t a_row = 0, a_col = 0, b_row = 0, b_col = 0, c_row = 0, c_col = 0;
  int batch_rank = 0;
  std::array<int64_t, kMaxGemmBatchRank> batch = {1, 1, 1, 1, 1, 1};
  std::array<int64_t, kMaxGemmBatchRank> a_batch = {}, b_batch = {}, c_batch = {};
  Epilogue epilogue;
  friend auto operator<=>(const GemmShape&, const GemmShape&) = default;

  int64_t batches() const;
};

struct FreeAligned {
  void operator()(std::byte* p) const { std::free(p); }
};
using AlignedBytes = std::unique_ptr<std::byte, FreeAligned>;  // 64-byte aligned

struct GemmArgs {
  const void* a = nullptr;
  const void* b = nullptr;  // not looked at where b is packed
  void* c = nullptr;
  const void* vectors[kMaxPostOps] = {};  // operand of post-op k: the vector or the matrix
};

// b in panels of `width` columns, each k x width, the last one filled up with zeros.
struct Rows {
  int64_t begin = 0, end = 0;
};

// Kernels compiled with the generated program.
struct HostGemm {
  int64_t panel_width = 0;
  // Any shape and type; rows of c, counted over all batch matrices.
  void (*run)(const GemmShape& shape, const GemmArgs& args, Rows rows);
  // f32: rows of batch matrix `batch` times the panel that begins at `column`.
  void (*run_panel)(const GemmShape& shape, const GemmArgs& args, int64_t batch, const float* panel, int64_t column, Rows rows);
  // Panel of a k x n matrix from `column` on.
  void (*pack_panel)(const float* b, int64_t b_row, int64_t b_col, int64_t k, int64_t n, int64_t column, float* panel);
};

// A constant b in panels.
class PackedMatrix {
 public:
  bool valid() const { return panels_ != nullptr; }
  const float* panel(int64_t index, int64_t stride) const { return reinterpret_cast<const float*>(panels_.get()) + index * stride; }

 private:
  friend class GemmLibrary;
  AlignedBytes panels_;
};

// A kernel for one shape. Runs without allocating. Uses up to omp_get_max_threads() threads as of its making.
class GemmKernel {
 public:
  virtual ~GemmKernel() = default;
  virtual void run(const GemmArgs& args, const PackedMatrix* packed) const = 0;
  virtual const char* name() const = 0;
};

// The kernels of one instance, shared by all operations of equal shape.
class GemmLibrary {
 public:
  explicit GemmLibrary(const HostGemm& host) : host_(host) {}

  // Copies b (k x n, f32, any strides) into panels. Throws std::bad_alloc.
  PackedMatrix pack(int64_t k, int64_t n, const float* b, int64_t b_row, int64_t b_col) const;

  // Valid as long as the library. `packed` may be null.
  const GemmKernel* kernel(const GemmShape& shape, const PackedMatrix* packed);

 private:
  struct Key {
    GemmShape shape;
    bool packed;
    int threads;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  HostGemm host_;
  AlignedBytes scratch_;  // a panel per thread, for b that is packed while it is multiplied
  size_t scratch_bytes_ = 0;
  std::map<Key, std::unique_ptr<GemmKernel>> kernels_;
};

}  // namespace braid::rt
