// Our own matrix multiplication kernels (see gemm.h), compiled by runtime/host/gemm_kernels.cc.
#pragma once

#include <algorithm>
#include <type_traits>

#include "runtime/gemm.h"
#include "runtime/kernel_support.h"

namespace braid::rt {
namespace {

// One row of the epilogue, in f32. `c_at` is the element offset of the row from the start of c.
inline void finish_row(const Epilogue& epilogue, const GemmArgs& args, float* c, int64_t c_at, int64_t column,
                       int64_t n) {
  for (int p = 0; p < kMaxPostOps && epilogue.ops[p] != PostOp::none; ++p) {
    const float* v = static_cast<const float*>(args.vectors[p]);
    const float scale = epilogue.scale;
    switch (epilogue.ops[p]) {
      case PostOp::none:
        break;
      case PostOp::scale:
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) c[i] *= scale;
        break;
      case PostOp::mul_vector:
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) c[i] *= v[column + i];
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
      case PostOp::swish:
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) c[i] *= vsigmoid(c[i]);
        break;
      case PostOp::relu6:
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) c[i] = vmin(vmax(c[i], 0.0f), 6.0f);
        break;
      case PostOp::hard_swish:
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) c[i] *= vmin(vmax(c[i] + 3.0f, 0.0f), 6.0f) * (1.0f / 6.0f);
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

// One row of c, any strides, `Acc` accumulators. Tiles of columns; where b's columns are adjacent the loop
// over them is the vector loop, otherwise (b transposed) each column is a dot product.
template <class T, class Acc, class C>
inline void gemm_row(const GemmShape& shape, const T* a, const T* b, C* c, int64_t c_at,
                     const GemmArgs& args) {
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
          for (int64_t k = 0; k < shape.k; ++k)
            sum += static_cast<Acc>(load(a[k])) * static_cast<Acc>(load(w[k]));
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
          for (int64_t j = 0; j < width; ++j)
            finish_row(shape.epilogue, args, acc + j, c_at + (n0 + j) * shape.c_col, n0 + j, 1);
        }
      }
    }
    for (int64_t j = 0; j < width; ++j) {
      if constexpr (std::is_same_v<C, Half> || std::is_same_v<C, BFloat16>)
        store(c[(n0 + j) * shape.c_col], acc[j]);
      else
        c[(n0 + j) * shape.c_col] = static_cast<C>(acc[j]);
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
  if (shape.c_type == shape.type)
    gemm_batches<T, Acc, T>(shape, args, begin, end);
  else
    gemm_batches<T, Acc, int32_t>(shape, args, begin, end);
}
template <class T>
void run_halves(const GemmShape& shape, const GemmArgs& args, int64_t begin, int64_t end) {
  if (shape.c_type == shape.type)
    gemm_batches<T, float, T>(shape, args, begin, end);
  else
    gemm_batches<T, float, float>(shape, args, begin, end);
}

void run_rows(const GemmShape& shape, const GemmArgs& args, int64_t begin, int64_t end) {
  switch (shape.type) {
    case DType::f32:
      return gemm_batches<float, float, float>(shape, args, begin, end);
    case DType::f64:
      return gemm_batches<double, double, double>(shape, args, begin, end);
    case DType::f16:
      return run_halves<Half>(shape, args, begin, end);
    case DType::bf16:
      return run_halves<BFloat16>(shape, args, begin, end);
    case DType::i8:
      return run_integers<int8_t>(shape, args, begin, end);
    case DType::u8:
      return run_integers<uint8_t>(shape, args, begin, end);
    case DType::i16:
      return run_integers<int16_t>(shape, args, begin, end);
    case DType::u16:
      return run_integers<uint16_t>(shape, args, begin, end);
    case DType::i32:
      return run_integers<int32_t>(shape, args, begin, end);
    case DType::u32:
      return run_integers<uint32_t>(shape, args, begin, end);
    case DType::i64:
      return run_integers<int64_t>(shape, args, begin, end);
    case DType::u64:
      return run_integers<uint64_t>(shape, args, begin, end);
    case DType::boolean:
      return;  // refused when compiling
  }
}

// With few rows, the memory bandwidth of b is the limit. A core achieves the most if it reads several panels
// concurrently and prefetches lines: the hardware prefetcher stops at the end of every 4 KB page of each
// stream. Measured on a Sapphire Rapids core: 13.5 GB/s for one stream without prefetch, 17 for two and 21
// for four with prefetch 2 KB ahead.
#if defined(__AVX512F__)
inline constexpr int64_t kLanes = 16, kAccumulators = 16;
#elif defined(__AVX__)
inline constexpr int64_t kLanes = 8, kAccumulators = 8;
#else
inline constexpr int64_t kLanes = 4, kAccumulators = 8;
#endif
inline constexpr int64_t kStreams = 4;
inline constexpr int64_t kAhead = 2048;  // bytes
inline constexpr int64_t kCacheLine = 64;

template <int64_t kWidth>
struct PanelVector {
  static constexpr int64_t kSize = kWidth < kLanes ? kWidth : kLanes;
  static constexpr int64_t kCount = kWidth / kSize;
  typedef float Type __attribute__((vector_size(kSize * sizeof(float)), aligned(4), may_alias));
};

// acc[p][r][j] = sum_i a[r, i] * panel p[i, j]
template <int64_t kWidth, int kRows, int kPanels>
inline void panel_rows(const float* a, int64_t a_row, int64_t a_col, const float* w, int64_t panel_stride,
                       int64_t k, float* acc) {
  using V = PanelVector<kWidth>;
  using Vector = typename V::Type;
  Vector sums[kPanels][kRows][V::kCount] = {};
  for (int64_t i = 0; i < k; ++i) {
    float x[kRows];
    for (int r = 0; r < kRows; ++r) x[r] = a[r * a_row + i * a_col];
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p) {
      const float* wk = w + p * panel_stride + i * kWidth;
#pragma GCC unroll 8
      for (int64_t line = 0; line < kWidth * int64_t{sizeof(float)}; line += kCacheLine) {
        __builtin_prefetch(reinterpret_cast<const char*>(wk) + line + kAhead);
      }
#pragma GCC unroll 8
      for (int64_t v = 0; v < V::kCount; ++v) {
        const Vector b = *reinterpret_cast<const Vector*>(wk + v * V::kSize);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) sums[p][r][v] += x[r] * b;
      }
    }
  }
  std::memcpy(acc, sums, sizeof sums);
}

template <int64_t kWidth, int kRows>
void panels_times_rows(const GemmShape& shape, const GemmArgs& args, const float* b, Panels panels,
                       int64_t begin, int64_t end, int64_t row) {
  constexpr int64_t kFit = kAccumulators / (kRows * PanelVector<kWidth>::kCount);
  constexpr int kTogether = static_cast<int>(std::clamp<int64_t>(kFit, 1, kStreams));
  const float* a = static_cast<const float*>(args.a) + row * shape.a_row;
  float* c = static_cast<float*>(args.c);
  alignas(64) float acc[kTogether * kRows * kWidth];
  for (int64_t p = begin; p < end;) {
    const float* w = b + p * panels.panel_stride;
    const int count = p + kTogether <= end ? kTogether : 1;
    if (count > 1)
      panel_rows<kWidth, kRows, kTogether>(a, shape.a_row, shape.a_col, w, panels.panel_stride, shape.k, acc);
    else
      panel_rows<kWidth, kRows, 1>(a, shape.a_row, shape.a_col, w, panels.panel_stride, shape.k, acc);
    for (int q = 0; q < count; ++q, ++p) {
      const int64_t column = p * kWidth, width = std::min(kWidth, shape.n - column);
      for (int r = 0; r < kRows; ++r) {
        float* sums = acc + (q * kRows + r) * kWidth;
        const int64_t at = (row + r) * shape.c_row + column;
        finish_row(shape.epilogue, args, sums, at, column, width);
        std::memcpy(c + at, sums, static_cast<size_t>(width) * sizeof(float));
      }
    }
  }
}

// Reads all panels again for every two rows; GemmLibrary uses it for no more.
template <int64_t kWidth>
void run_panels_of(const GemmShape& shape, const GemmArgs& args, const float* b, Panels panels, int64_t begin,
                   int64_t end) {
  int64_t row = 0;
  for (; row + 2 <= shape.m; row += 2) panels_times_rows<kWidth, 2>(shape, args, b, panels, begin, end, row);
  if (row < shape.m) panels_times_rows<kWidth, 1>(shape, args, b, panels, begin, end, row);
}

void run_panels(const GemmShape& shape, const GemmArgs& args, const float* b, Panels panels, int64_t begin,
                int64_t end) {
  switch (panels.width) {
    case 64:
      return run_panels_of<64>(shape, args, b, panels, begin, end);
    case 48:
      return run_panels_of<48>(shape, args, b, panels, begin, end);
    case 32:
      return run_panels_of<32>(shape, args, b, panels, begin, end);
    case 16:
      return run_panels_of<16>(shape, args, b, panels, begin, end);
    case 8:
      return run_panels_of<8>(shape, args, b, panels, begin, end);
    default:
      return;  // GemmLibrary asks for these widths only
  }
}

}  // namespace
}  // namespace braid::rt
