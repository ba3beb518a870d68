// Matrix multiplication kernels of our own, compiled with each generated program for its machine (see gemm.h).
#pragma once

#include <algorithm>
#include <type_traits>

#include "runtime/gemm.h"
#include "runtime/kernel_support.h"

namespace braid::rt {
namespace {

// One row of the epilogue, in f32. `c_at` is the element offset of the row from the start of c.
inline void finish_row(const Epilogue& epilogue, const GemmArgs& args, float* c, int64_t c_at, int64_t column, int64_t n) {
  for (int p = 0; p < kMaxPostOps && epilogue.ops[p] != PostOp::none; ++p) {
    const float* v = static_cast<const float*>(args.vectors[p]);
    const float scale = epilogue.scale;
    switch (epilogue.ops[p]) {
      case PostOp::none: break;
      case PostOp::scale:
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) c[i] *= scale;
        break;
      case PostOp::add_vector:
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) c[i] += v[column + i];
        break;
      case PostOp::add_matrix:
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) c[i] += v[c_at + i];
        break;
      case PostOp::relu:
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) c[i] = vmax(c[i], 0.0f);
        break;
      case PostOp::gelu_tanh:
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) {
          const float x = c[i];
          c[i] = 0.5f * x * (1.0f + vtanh(0.797884561f * (x + 0.044715f * x * x * x)));
        }
        break;
      case PostOp::gelu_erf:
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) c[i] = 0.5f * c[i] * (1.0f + verf(c[i] * 0.707106781f));
        break;
      case PostOp::tanh:
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) c[i] = vtanh(c[i]);
        break;
      case PostOp::sigmoid:
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) c[i] = vsigmoid(c[i]);
        break;
    }
  }
}

// Element offsets of one batch matrix.
struct BatchOffsets {
  int64_t a = 0, b = 0, c = 0;
};
inline BatchOffsets batch_offsets(const GemmShape& shape, int64_t index) {
  BatchOffsets at;
  for (int d = shape.batch_rank - 1; d >= 0; --d) {
    const int64_t i = index % shape.batch[d];
    index /= shape.batch[d];
    at.a += i * shape.a_batch[d];
    at.b += i * shape.b_batch[d];
    at.c += i * shape.c_batch[d];
  }
  return at;
}

inline constexpr int64_t kGemmTile = 128;

// One row of c, any strides, `Acc` accumulators. Tiles of columns; where b's columns are adjacent the loop over them is
// the vector loop, otherwise (b transposed) each column is a dot product.
template <class T, class Acc, class C>
inline void gemm_row(const GemmShape& shape, const T* a, const T* b, C* c, int64_t c_at, const GemmArgs& args) {
  alignas(64) Acc acc[kGemmTile];
  for (int64_t n0 = 0; n0 < shape.n; n0 += kGemmTile) {
    const int64_t width = std::min(kGemmTile, shape.n - n0);
    const T* bt = b + n0 * shape.b_col;
    if (shape.b_col == 1 || shape.b_row != 1) {
      for (int64_t j = 0; j < width; ++j) acc[j] = Acc{};
      const int64_t bc = shape.b_col;
      if (bc == 1) {
        int64_t k = 0;
        for (; k + 4 <= shape.k; k += 4) {
          const Acc x0 = load(a[k * shape.a_col]), x1 = load(a[(k + 1) * shape.a_col]);
          const Acc x2 = load(a[(k + 2) * shape.a_col]), x3 = load(a[(k + 3) * shape.a_col]);
          const T* w0 = bt + k * shape.b_row;
          const T* w1 = w0 + shape.b_row;
          const T* w2 = w1 + shape.b_row;
          const T* w3 = w2 + shape.b_row;
#pragma omp simd
          for (int64_t j = 0; j < width; ++j) {
            acc[j] += x0 * static_cast<Acc>(load(w0[j])) + x1 * static_cast<Acc>(load(w1[j])) +
                      x2 * static_cast<Acc>(load(w2[j])) + x3 * static_cast<Acc>(load(w3[j]));
          }
        }
        for (; k < shape.k; ++k) {
          const Acc x = load(a[k * shape.a_col]);
          const T* w = bt + k * shape.b_row;
#pragma omp simd
          for (int64_t j = 0; j < width; ++j) acc[j] += x * static_cast<Acc>(load(w[j]));
        }
      } else {
        for (int64_t k = 0; k < shape.k; ++k) {
          const Acc x = load(a[k * shape.a_col]);
          const T* w = bt + k * shape.b_row;
          for (int64_t j = 0; j < width; ++j) acc[j] += x * static_cast<Acc>(load(w[j * bc]));
        }
      }
    } else {
      for (int64_t j = 0; j < width; ++j) {
        const T* w = bt + j * shape.b_col;
        Acc sum{};
        if (shape.a_col == 1) {
#pragma omp simd reduction(+ : sum)
          for (int64_t k = 0; k < shape.k; ++k) sum += static_cast<Acc>(load(a[k])) * static_cast<Acc>(load(w[k]));
        } else {
          for (int64_t k = 0; k < shape.k; ++k) {
            sum += static_cast<Acc>(load(a[k * shape.a_col])) * static_cast<Acc>(load(w[k]));
          }
        }
        acc[j] = sum;
      }
    }
    if constexpr (std::is_same_v<T, float>) {
      if (!shape.epilogue.empty()) {
        if (shape.c_col == 1) {
          finish_row(shape.epilogue, args, acc, c_at + n0, n0, width);
        } else {
          // add_matrix lies as c does: column by column.
          for (int64_t j = 0; j < width; ++j) finish_row(shape.epilogue, args, acc + j, c_at + (n0 + j) * shape.c_col, n0 + j, 1);
        }
      }
    }
    for (int64_t j = 0; j < width; ++j) {
      if constexpr (std::is_same_v<C, Half> || std::is_same_v<C, BFloat16>) store(c[(n0 + j) * shape.c_col], acc[j]);
      else c[(n0 + j) * shape.c_col] = static_cast<C>(acc[j]);
    }
  }
}

template <class T, class Acc, class C>
void gemm_batches(const GemmShape& shape, const GemmArgs& args, Rows rows) {
  const T* a = static_cast<const T*>(args.a);
  const T* b = static_cast<const T*>(args.b);
  C* c = static_cast<C*>(args.c);
  for (int64_t index = rows.begin; index < rows.end; ++index) {
    const BatchOffsets at = batch_offsets(shape, index / shape.m);
    const int64_t row = index % shape.m;
    const int64_t c_at = at.c + row * shape.c_row;
    gemm_row<T, Acc, C>(shape, a + at.a + row * shape.a_row, b + at.b, c + c_at, c_at, args);
  }
}

// Integer sums wrap; unsigned accumulators make that defined.
template <class T>
void run_integers(const GemmShape& shape, const GemmArgs& args, Rows rows) {
  using Acc = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  if (shape.c_type == shape.type) gemm_batches<T, Acc, T>(shape, args, rows);
  else gemm_batches<T, Acc, int32_t>(shape, args, rows);
}
template <class T>
void run_halves(const GemmShape& shape, const GemmArgs& args, Rows rows) {
  if (shape.c_type == shape.type) gemm_batches<T, float, T>(shape, args, rows);
  else gemm_batches<T, float, float>(shape, args, rows);
}

void run_rows(const GemmShape& shape, const GemmArgs& args, Rows rows) {
  switch (shape.type) {
    case DType::f32: return gemm_batches<float, float, float>(shape, args, rows);
    case DType::f64: return gemm_batches<double, double, double>(shape, args, rows);
    case DType::f16: return run_halves<Half>(shape, args, rows);
    case DType::bf16: return run_halves<BFloat16>(shape, args, rows);
    case DType::i8: return run_integers<int8_t>(shape, args, rows);
    case DType::u8: return run_integers<uint8_t>(shape, args, rows);
    case DType::i16: return run_integers<int16_t>(shape, args, rows);
    case DType::u16: return run_integers<uint16_t>(shape, args, rows);
    case DType::i32: return run_integers<int32_t>(shape, args, rows);
    case DType::u32: return run_integers<uint32_t>(shape, args, rows);
    case DType::i64: return run_integers<int64_t>(shape, args, rows);
    case DType::u64: return run_integers<uint64_t>(shape, args, rows);
    case DType::boolean: return;  // refused when compiling
  }
}

// ---- f32 over panels

#if defined(__AVX512F__)
inline constexpr int kLanes = 16, kVectors = 4;
#elif defined(__AVX2__)
inline constexpr int kLanes = 8, kVectors = 2;
#else
inline constexpr int kLanes = 4, kVectors = 2;
#endif
inline constexpr int kBlockRows = 6;                            // rows x vectors accumulators fit in the registers
inline constexpr int64_t kPanelWidth = kLanes * kVectors;
inline constexpr int64_t kBlockDepth = 2048;                    // rows of a panel that stay in the second-level cache
typedef float Vector __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));

// acc[r][j] (+)= sum_i a[r, i] * panel[i, j]
template <int kRows, bool kUnitStride>
[[gnu::noinline]] void multiply_block(const float* __restrict a, int64_t a_row, int64_t a_col, const float* __restrict panel, int64_t k,
                                      float* __restrict acc, bool add) {
  Vector sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sums[r][v] = add ? *reinterpret_cast<const Vector*>(acc + r * kPanelWidth + v * kLanes) : Vector{};
  }
  for (int64_t i = 0; i < k; ++i) {
    Vector b[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) b[v] = *reinterpret_cast<const Vector*>(panel + i * kPanelWidth + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const float x = a[r * a_row + (kUnitStride ? i : i * a_col)];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[r][v] += x * b[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) *reinterpret_cast<Vector*>(acc + r * kPanelWidth + v * kLanes) = sums[r][v];
  }
}

template <bool kUnitStride>
inline void multiply_rows(int rows, const float* a, int64_t a_row, int64_t a_col, const float* panel, int64_t k, float* acc, bool add) {
  switch (rows) {
    case 1: return multiply_block<1, kUnitStride>(a, a_row, a_col, panel, k, acc, add);
    case 2: return multiply_block<2, kUnitStride>(a, a_row, a_col, panel, k, acc, add);
    case 3: return multiply_block<3, kUnitStride>(a, a_row, a_col, panel, k, acc, add);
    case 4: return multiply_block<4, kUnitStride>(a, a_row, a_col, panel, k, acc, add);
    case 5: return multiply_block<5, kUnitStride>(a, a_row, a_col, panel, k, acc, add);
    default: return multiply_block<6, kUnitStride>(a, a_row, a_col, panel, k, acc, add);
  }
}

// The panel is walked through once per block of rows; a deep one in slices, between which the sums wait in c.
void run_panel(const GemmShape& shape, const GemmArgs& args, int64_t batch, const float* panel, int64_t column, Rows range) {
  const BatchOffsets at = batch_offsets(shape, batch);
  const float* a = static_cast<const float*>(args.a) + at.a;
  float* c = static_cast<float*>(args.c);
  const int64_t width = std::min(kPanelWidth, shape.n - column);
  alignas(64) float acc[kBlockRows * kPanelWidth];
  const int64_t depth = shape.c_col == 1 ? kBlockDepth : shape.k;
  for (int64_t k0 = 0; k0 < shape.k; k0 += depth) {
    const int64_t k = std::min(depth, shape.k - k0);
    const bool last = k0 + k == shape.k;
    for (int64_t row = range.begin; row < range.end;) {
      const int rows = static_cast<int>(std::min<int64_t>(kBlockRows, range.end - row));
      if (k0 > 0) {
        for (int r = 0; r < rows; ++r) {
          std::memcpy(acc + r * kPanelWidth, c + at.c + (row + r) * shape.c_row + column, static_cast<size_t>(width) * sizeof(float));
        }
      }
      const float* block = a + row * shape.a_row + k0 * shape.a_col;
      const float* slice = panel + k0 * kPanelWidth;
      if (shape.a_col == 1) multiply_rows<true>(rows, block, shape.a_row, 1, slice, k, acc, k0 > 0);
      else multiply_rows<false>(rows, block, shape.a_row, shape.a_col, slice, k, acc, k0 > 0);
      for (int r = 0; r < rows; ++r) {
        float* sums = acc + r * kPanelWidth;
        const int64_t c_at = at.c + (row + r) * shape.c_row + column * shape.c_col;
        if (last && !shape.epilogue.empty()) finish_row(shape.epilogue, args, sums, c_at, column, width);
        if (shape.c_col == 1) {
          std::memcpy(c + c_at, sums, static_cast<size_t>(width) * sizeof(float));
        } else {
          for (int64_t j = 0; j < width; ++j) c[c_at + j * shape.c_col] = sums[j];
        }
      }
      row += rows;
    }
  }
}

void pack_panel(const float* b, int64_t b_row, int64_t b_col, int64_t k, int64_t n, int64_t column, float* panel) {
  const int64_t width = std::min(kPanelWidth, n - column);
  if (width < kPanelWidth) std::memset(panel, 0, static_cast<size_t>(k * kPanelWidth) * sizeof(float));
  const float* from = b + column * b_col;
  if (b_col == 1) {
    for (int64_t i = 0; i < k; ++i) std::memcpy(panel + i * kPanelWidth, from + i * b_row, static_cast<size_t>(width) * sizeof(float));
    return;
  }
  constexpr int64_t kTile = 16;  // a transposed b is read along its own rows
  for (int64_t i0 = 0; i0 < k; i0 += kTile) {
    const int64_t i1 = std::min(i0 + kTile, k);
    for (int64_t j = 0; j < width; ++j) {
      for (int64_t i = i0; i < i1; ++i) panel[i * kPanelWidth + j] = from[i * b_row + j * b_col];
    }
  }
}

[[maybe_unused]] constexpr HostGemm kHostGemm = {kPanelWidth, run_rows, run_panel, pack_panel};

}  // namespace
}  // namespace braid::rt
