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

void finish_rows(const GemmShape& shape, const GemmArgs& args, int64_t c_offset, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const int64_t at = c_offset + row * shape.c_row;
    finish_row(shape.epilogue, args, static_cast<float*>(args.c) + at, at, 0, shape.n);
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
void gemm_batches(const GemmShape& shape, const GemmArgs& args, int64_t begin, int64_t end) {
  const T* a = static_cast<const T*>(args.a);
  const T* b = static_cast<const T*>(args.b);
  C* c = static_cast<C*>(args.c);
  for (int64_t index = begin; index < end; ++index) {
    // [begin, end) counts rows of c over all batch matrices.
    const BatchOffsets at = batch_offsets(shape, index / shape.m);
    const int64_t row = index % shape.m;
    const int64_t c_at = at.c + row * shape.c_row;
    gemm_row<T, Acc, C>(shape, a + at.a + row * shape.a_row, b + at.b, c + c_at, c_at, args);
  }
}

// Integer sums wrap; unsigned accumulators make that defined.
template <class T>
void run_integers(const GemmShape& shape, const GemmArgs& args, int64_t begin, int64_t end) {
  using Acc = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  if (shape.c_type == shape.type) gemm_batches<T, Acc, T>(shape, args, begin, end);
  else gemm_batches<T, Acc, int32_t>(shape, args, begin, end);
}
template <class T>
void run_halves(const GemmShape& shape, const GemmArgs& args, int64_t begin, int64_t end) {
  if (shape.c_type == shape.type) gemm_batches<T, float, T>(shape, args, begin, end);
  else gemm_batches<T, float, float>(shape, args, begin, end);
}

void run_rows(const GemmShape& shape, const GemmArgs& args, int64_t begin, int64_t end) {
  switch (shape.type) {
    case DType::f32: return gemm_batches<float, float, float>(shape, args, begin, end);
    case DType::f64: return gemm_batches<double, double, double>(shape, args, begin, end);
    case DType::f16: return run_halves<Half>(shape, args, begin, end);
    case DType::bf16: return run_halves<BFloat16>(shape, args, begin, end);
    case DType::i8: return run_integers<int8_t>(shape, args, begin, end);
    case DType::u8: return run_integers<uint8_t>(shape, args, begin, end);
    case DType::i16: return run_integers<int16_t>(shape, args, begin, end);
    case DType::u16: return run_integers<uint16_t>(shape, args, begin, end);
    case DType::i32: return run_integers<int32_t>(shape, args, begin, end);
    case DType::u32: return run_integers<uint32_t>(shape, args, begin, end);
    case DType::i64: return run_integers<int64_t>(shape, args, begin, end);
    case DType::u64: return run_integers<uint64_t>(shape, args, begin, end);
    case DType::boolean: return;  // refused when compiling
  }
}

// A few rows times one panel; the panel is streamed once for all of them.
template <int64_t kWidth, int kRows>
inline void panel_rows(const float* a, int64_t a_row, int64_t a_col, const float* w, int64_t k, float* acc) {
  alignas(64) float sums[kRows][kWidth] = {};
  for (int64_t i = 0; i < k; ++i) {
    const float* wk = w + i * kWidth;
    for (int r = 0; r < kRows; ++r) {
      const float x = a[r * a_row + i * a_col];
#pragma omp simd
      for (int64_t j = 0; j < kWidth; ++j) sums[r][j] += x * wk[j];
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int64_t j = 0; j < kWidth; ++j) acc[r * kWidth + j] = sums[r][j];
  }
}

template <int64_t kWidth>
void run_panels_of(const GemmShape& shape, const GemmArgs& args, const float* b, Panels panels, int64_t begin, int64_t end) {
  const float* a = static_cast<const float*>(args.a);
  float* c = static_cast<float*>(args.c);
  alignas(64) float acc[2 * kWidth];
  for (int64_t p = begin; p < end; ++p) {
    const float* w = b + p * panels.panel_stride;
    const int64_t column = p * kWidth;
    const int64_t width = std::min(kWidth, shape.n - column);
    for (int64_t row = 0; row < shape.m;) {
      const int rows = row + 2 <= shape.m ? 2 : 1;
      if (rows == 2) panel_rows<kWidth, 2>(a + row * shape.a_row, shape.a_row, shape.a_col, w, shape.k, acc);
      else panel_rows<kWidth, 1>(a + row * shape.a_row, shape.a_row, shape.a_col, w, shape.k, acc);
      for (int r = 0; r < rows; ++r) {
        const int64_t at = (row + r) * shape.c_row + column;
        finish_row(shape.epilogue, args, acc + r * kWidth, at, column, width);
        std::memcpy(c + at, acc + r * kWidth, static_cast<size_t>(width) * sizeof(float));
      }
      row += rows;
    }
  }
}

void run_panels(const GemmShape& shape, const GemmArgs& args, const float* b, Panels panels, int64_t begin, int64_t end) {
  switch (panels.width) {
    case 64: return run_panels_of<64>(shape, args, b, panels, begin, end);
    case 48: return run_panels_of<48>(shape, args, b, panels, begin, end);
    case 32: return run_panels_of<32>(shape, args, b, panels, begin, end);
    case 16: return run_panels_of<16>(shape, args, b, panels, begin, end);
    case 8: return run_panels_of<8>(shape, args, b, panels, begin, end);
    default: return;  // GemmLibrary asks for these widths only
  }
}

[[maybe_unused]] constexpr HostGemm kHostGemm = {run_rows, run_panels, finish_rows};

}  // namespace
}  // namespace braid::rt
