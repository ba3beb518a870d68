// Matrix multiplication of generated CPU programs:
//
//   c[batch..., m, n] = epilogue(sum_k a[batch..., m, k] * b[batch..., k, n])
//
// over strided operands. `prepare` chooses one kernel per actual shape:
//
//   tiles           constant b, packed once in panels of our own, with AVX-512 (tile_kernels.h)
//   oneDNN matmul   the same without AVX-512, in the library's own layout
//   matrix-vector   few rows: our own kernels, which stream b (or its packed form) once; no set-up per shape
//   oneDNN sgemm    other f32 operands with a unit stride in each matrix, one call per batch matrix
//   byte tiles      8-bit integers with sums in int32 (integer_gemm.h): constant b packed once, any other
//                   for each call
//   halves          f16 and bf16 with a constant b and sums in f32 (half_gemm.h)
//   widened bytes   f32 rows with a constant b of 8-bit integers (byte_weights.h), which are read as they are
//   generic loops   all other types and strides
//
// Our own kernels (gemm_kernels.inc) are built once per instruction set; the processor decides which of them
// run.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/dtype.h"
#include "runtime/owned.h"

namespace braid::rt {

inline constexpr int kMaxGemmBatchRank = 6;
inline constexpr int kMaxPostOps = 4;

// The operations on the sum before it is stored, in this order. Vectors have n elements; the matrix is laid
// out like c and shares no memory with it. Both have c's type.
enum class PostOp : uint8_t {
  none,
  scale,
  mul_vector,
  add_vector,
  add_matrix,
  relu,
  gelu_tanh,
  gelu_erf,
  tanh,
  sigmoid,
  swish,
  relu6,
  hard_swish,
};
inline constexpr bool takes_operand(PostOp op) {
  return op == PostOp::mul_vector || op == PostOp::add_vector || op == PostOp::add_matrix;
}
struct Epilogue {
  std::array<PostOp, kMaxPostOps> ops = {};
  float scale = 1.0f;
  friend auto operator<=>(const Epilogue&, const Epilogue&) = default;
  bool empty() const { return ops[0] == PostOp::none; }
};

// Strides count elements. Batch dimensions outermost first; unused ones are left 1 with stride 0.
struct GemmShape {
  DType type = DType::f32;    // of a, and of b unless that has 8-bit integers
  DType b_type = DType::f32;  // of b, if it has 8-bit integers: i8 or u8
  DType c_type = DType::f32;  // as `type`, or what sums are accumulated in: f32 (halves), i32 (integers)
  bool finished = false;      // 8-bit operands: GemmArgs::finish takes the sums instead of c
  int64_t m = 0, n = 0, k = 0;
  int64_t a_row = 0, a_col = 0, b_row = 0, b_col = 0, c_row = 0, c_col = 0;
  int batch_rank = 0;
  std::array<int64_t, kMaxGemmBatchRank> batch = {1, 1, 1, 1, 1, 1};
  std::array<int64_t, kMaxGemmBatchRank> a_batch = {}, b_batch = {}, c_batch = {};
  Epilogue epilogue;
  bool by_columns =
      false;  // to be computed in parts (GemmKernel::run_columns), if there is a kernel for that
  friend auto operator<=>(const GemmShape&, const GemmShape&) = default;

  int64_t batches() const;
};

inline constexpr int64_t kTileColumns = 256;  // at most
inline constexpr int64_t kWholeColumns = 64;

// Sums of a product: rows [row, row + rows), counted over all batch matrices, and columns [column, column +
// columns). A tile has all columns if the product, or the convolution of one group or of one filter per
// group, has up to kWholeColumns columns.
struct GemmTile {
  const int32_t* sums = nullptr;
  int64_t sums_row = 0;  // elements from row to row
  int64_t row = 0, rows = 0, column = 0, columns = 0;
};
// Computes the result from tiles of sums while they lie in the first-level cache, on several threads at once.
// `f` must outlive the call that receives this object.
struct FinishTile {
  void (*call)(const void* context, const GemmTile& tile) = nullptr;
  const void* context = nullptr;

  FinishTile() = default;
  template <class F>
  explicit FinishTile(const F& f)
      : call([](const void* context, const GemmTile& tile) { (*static_cast<const F*>(context))(tile); }),
        context(&f) {}
};

struct GemmArgs {
  const void* a = nullptr;
  const void* b = nullptr;  // unused if b is packed
  void* c = nullptr;
  const void* vectors[kMaxPostOps] = {};  // operand of post-op k: the vector or the matrix
  FinishTile finish = {};                 // for shapes that are `finished`
};

// A constant b in the layout of its kernels.
class PackedMatrix {
 public:
  PackedMatrix();
  ~PackedMatrix();
  PackedMatrix(PackedMatrix&&) noexcept;
  PackedMatrix& operator=(PackedMatrix&&) noexcept;

  bool valid() const { return impl_.get() != nullptr; }
  size_t bytes() const;

  struct Impl;
  const Impl* impl() const { return impl_.get(); }

 private:
  friend class GemmLibrary;
  Owned<Impl> impl_;
};

// A kernel for one shape. It allocates nothing when it runs, and uses up to as many threads as
// team_threads() returned when it was made.
class GemmKernel {
 public:
  virtual ~GemmKernel() = default;
  virtual void run(const GemmArgs& args, const PackedMatrix* packed) const = 0;
  virtual const char* name() const = 0;
  // The columns that a part of the result begins at multiples of; 0: there are no parts.
  virtual int64_t column_block() const { return 0; }
  // Columns [begin, end) of c, by the calling thread.
  virtual void run_columns(const GemmArgs&, const PackedMatrix*, int64_t /*begin*/, int64_t /*end*/) const {}
};

// The kernels of one instance, shared by all operations of equal shape. Throws std::runtime_error with the
// library's message if that fails.
class GemmLibrary {
 public:
  GemmLibrary();
  ~GemmLibrary();

  // Copies b (k x n, f32, any strides) into the library's layout, chosen for about `typical_m` rows. The
  // result is invalid if the library would use b unchanged: the caller then keeps using b.
  PackedMatrix pack(int64_t k, int64_t n, const float* b, int64_t b_row, int64_t b_col, int64_t typical_m);

  // The same for 8-bit integers (`type`: i8 or u8), for products with rows of `a_type`: 8-bit integers or
  // f32; and for halves of `a_type`. The result is always valid if b has elements.
  PackedMatrix pack(DType a_type, DType type, int64_t k, int64_t n, const void* b, int64_t b_row,
                    int64_t b_col);

  // The kernel lives as long as the library. `packed` may be null.
  const GemmKernel* kernel(const GemmShape& shape, const PackedMatrix* packed);

 private:
  struct Impl;
  Owned<Impl> impl_;
};

}  // namespace braid::rt
