#include "runtime/half_gemm.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/amx.h"
#include "runtime/byte_weights.h"
#include "runtime/half.h"
#include "runtime/kernel_variables.h"
#include "runtime/processor.h"
#include "runtime/team.h"
#include "runtime/tile_kernels.h"

namespace braid::rt {

bool has_bf16_units() {
#ifdef __x86_64__
  static const bool found = [] {
    if (word_of(kHalfVariable) == "widened") return false;
    return instruction_set() == InstructionSet::avx512 && missing_feature(kFeatureAvx512bf16) == nullptr;
  }();
  return found;
#else
  return false;
#endif
}

bool has_bf16_matrix_units() {
  static const bool found = word_of(kHalfVariable) != "avx512" && has_amx_bf16();
  return found;
}

namespace {

constexpr int64_t kWidth = 64;
constexpr int64_t kBlockRows = 256;    // that are converted at once
constexpr int64_t kStreamedRows = 16;  // up to this many, threads share the panels and not the rows

int64_t panels_of(int64_t n) { return (n + kWidth - 1) / kWidth; }

// Element offsets of one batch matrix.
struct Offsets {
  int64_t a = 0, c = 0;
};
Offsets offsets_of(const GemmShape& s, int64_t index) {
  Offsets at;
  for (int d = s.batch_rank - 1; d >= 0; --d) {
    at.a += index % s.batch[d] * s.a_batch[d];
    at.c += index % s.batch[d] * s.c_batch[d];
    index /= s.batch[d];
  }
  return at;
}

// Returns the arguments with the epilogue's matrices, which have the layout of c, moved to offset `c_at`.
GemmArgs part_of(const GemmShape& s, const GemmArgs& args, int64_t c_at) {
  GemmArgs part = args;
  for (int p = 0; p < kMaxPostOps; ++p) {
    if (s.epilogue.ops[static_cast<size_t>(p)] == PostOp::add_matrix)
      part.vectors[p] = static_cast<const float*>(args.vectors[p]) + c_at;
  }
  return part;
}

class WidenedHalves final : public GemmKernel {
 public:
  WidenedHalves(const GemmShape& shape, int threads) : s_(shape), threads_(threads) {
    block_ = std::min(kBlockRows, s_.m);
    rows_.resize(static_cast<size_t>(block_ * s_.k));
    if (s_.c_type != DType::f32) sums_.resize(static_cast<size_t>(block_ * s_.c_row + s_.n));
    whole_ = make_byte_weights(of_rows(block_), threads);
    if (block_ > 0 && s_.m % block_ != 0) rest_ = make_byte_weights(of_rows(s_.m % block_), threads);
  }
  void run(const GemmArgs& args, const PackedMatrix* packed) const override {
    if (s_.m == 0) return;
    for (int64_t i = 0; i < s_.batches(); ++i) {
      const Offsets at = offsets_of(s_, i);
      for (int64_t row = 0; row < s_.m; row += block_)
        rows(args, packed, at.a + row * s_.a_row, at.c + row * s_.c_row, std::min(block_, s_.m - row));
    }
  }
  const char* name() const override { return "widened halves"; }

 private:
  GemmShape of_rows(int64_t m) const {
    GemmShape s = s_;
    s.type = s.b_type = s.c_type = DType::f32;
    s.batch_rank = 0;
    s.m = m;
    s.a_row = s.k;
    s.a_col = 1;
    return s;
  }
  void rows(const GemmArgs& args, const PackedMatrix* packed, int64_t a_at, int64_t c_at,
            int64_t count) const {
    const auto* const a = static_cast<const uint16_t*>(args.a) + a_at;
    parallel_for(count, threads_ > 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        to_floats(s_.type, a + r * s_.a_row, s_.a_col, s_.k, rows_.data() + r * s_.k);
    });
    GemmArgs part = part_of(s_, args, c_at);
    part.a = rows_.data();
    const bool direct = s_.c_type == DType::f32;
    part.c = direct ? static_cast<float*>(args.c) + c_at : sums_.data();
    (count == block_ ? whole_ : rest_)->run(part, packed);
    if (direct) return;
    auto* const c = static_cast<uint16_t*>(args.c) + c_at;
    parallel_for(count, threads_ > 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        to_halves(s_.c_type, sums_.data() + r * s_.c_row, 1, s_.n, c + r * s_.c_row, 1);
    });
  }

  GemmShape s_;
  int threads_;
  int64_t block_;
  std::unique_ptr<GemmKernel> whole_, rest_;
  mutable std::vector<float> rows_, sums_;
};

#ifdef __x86_64__
struct Bf16Weights final : PackedMatrix::Impl {
  int64_t pairs = 0;
};

PackedMatrix::Impl* pack_pairs(int64_t k, int64_t n, const uint16_t* b, int64_t b_row, int64_t b_col) {
  auto packed = std::make_unique<Bf16Weights>();
  packed->pairs = (k + 1) / 2;
  const int64_t panel = packed->pairs * kWidth * 2;
  packed->size = static_cast<size_t>(panels_of(n) * panel) * sizeof(uint16_t);
  packed->bytes = aligned_bytes(packed->size);
  std::memset(packed->bytes.get(), 0, packed->size);
  auto* const to = reinterpret_cast<uint16_t*>(packed->bytes.get());
  for (int64_t p = 0; p < panels_of(n); ++p) {
    const int64_t columns = std::min(kWidth, n - p * kWidth);
    for (int64_t i = 0; i < k; ++i) {
      const uint16_t* const row = b + i * b_row + p * kWidth * b_col;
      uint16_t* const out = to + p * panel + i / 2 * kWidth * 2 + i % 2;
      for (int64_t j = 0; j < columns; ++j) out[2 * j] = row[j * b_col];
    }
  }
  return packed.release();
}

class Bf16Gemm final : public GemmKernel {
 public:
  Bf16Gemm(const GemmShape& shape, int threads) : s_(shape), threads_(threads) {
    if (s_.a_col != 1) rows_.resize(static_cast<size_t>(std::min(kBlockRows, s_.m) * s_.k));
  }
  void run(const GemmArgs& args, const PackedMatrix* packed) const override {
    const auto* weights = static_cast<const Bf16Weights*>(packed->impl());
    const Bf16Panels b = {reinterpret_cast<const uint16_t*>(weights->bytes.get()), weights->pairs,
                          has_bf16_matrix_units()};
    for (int64_t i = 0; i < s_.batches(); ++i) {
      const Offsets at = offsets_of(s_, i);
      const auto* a = static_cast<const uint16_t*>(args.a) + at.a;
      if (s_.a_col == 1) {
        multiply(args, a, s_.a_row, b, at.c, s_.m);
        continue;
      }
      for (int64_t row = 0; row < s_.m; row += kBlockRows) {
        const int64_t count = std::min(kBlockRows, s_.m - row);
        for (int64_t r = 0; r < count; ++r) {
          const uint16_t* const from = a + (row + r) * s_.a_row;
          for (int64_t k = 0; k < s_.k; ++k) rows_[static_cast<size_t>(r * s_.k + k)] = from[k * s_.a_col];
        }
        multiply(args, rows_.data(), s_.k, b, at.c + row * s_.c_row, count);
      }
    }
  }
  const char* name() const override { return "bf16 tiles"; }

 private:
  void multiply(const GemmArgs& args, const uint16_t* a, int64_t a_row, const Bf16Panels& b, int64_t c_at,
                int64_t rows) const {
    GemmArgs part = part_of(s_, args, c_at);
    part.c = static_cast<std::byte*>(args.c) + c_at * static_cast<int64_t>(size_of(s_.c_type));
    const int64_t panels = panels_of(s_.n);
    const auto run = [&](int64_t r0, int64_t r1, int64_t p0, int64_t p1) {
      avx512::kBf16Kernels.multiply(s_, part, a, a_row, b, r0, r1, p0, p1);
    };
    if (rows <= kStreamedRows)
      parallel_for(
          panels, threads_ > 1, [&](int64_t begin, int64_t end) { run(0, rows, begin, end); },
          kStreamedPanels);
    else
      split_tiles(
          threads_, rows, panels,
          [&](const TilePart& t) { run(t.row_begin, t.row_end, t.column_begin, t.column_end); }, kWidth);
  }

  GemmShape s_;
  int threads_;
  mutable std::vector<uint16_t> rows_;
};
#endif

}  // namespace

void to_floats(DType type, const uint16_t* from, int64_t step, int64_t count, float* to) {
  if (type == DType::f16) {
    for (int64_t i = 0; i < count; ++i) to[i] = to_float(Half{from[i * step]});
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = to_float(BFloat16{from[i * step]});
  }
}
void to_halves(DType type, const float* from, int64_t from_step, int64_t count, uint16_t* to,
               int64_t to_step) {
  if (type == DType::f16) {
    for (int64_t i = 0; i < count; ++i) to[i * to_step] = to_half(from[i * from_step]).bits;
  } else {
    for (int64_t i = 0; i < count; ++i) to[i * to_step] = to_bfloat16(from[i * from_step]).bits;
  }
}

PackedMatrix::Impl* pack_halves(DType type, int64_t k, int64_t n, const void* b, int64_t b_row,
                                int64_t b_col) {
#ifdef __x86_64__
  if (type == DType::bf16 && has_bf16_units())
    return pack_pairs(k, n, static_cast<const uint16_t*>(b), b_row, b_col);
#endif
  return pack_byte_weights(type, k, n, b, b_row, b_col);
}

std::unique_ptr<GemmKernel> make_half_gemm(const GemmShape& shape, int threads) {
  if (shape.c_col != 1) return nullptr;
#ifdef __x86_64__
  if (shape.type == DType::bf16 && has_bf16_units()) return std::make_unique<Bf16Gemm>(shape, threads);
#endif
  return std::make_unique<WidenedHalves>(shape, threads);
}

}  // namespace braid::rt
