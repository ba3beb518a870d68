#include "runtime/byte_weights.h"

#include <algorithm>
#include <cstring>

#include "runtime/team.h"
#include "runtime/tile_kernels.h"

namespace braid::rt {
namespace {

constexpr int64_t kWidth = 64;
constexpr int64_t kStreamedRows = 8;  // up to this many, weights are widened for each four rows

int64_t panels_of(int64_t n) { return (n + kWidth - 1) / kWidth; }

class ByteWeightsGemm final : public GemmKernel {
 public:
  ByteWeightsGemm(const GemmShape& shape, int threads) : s_(shape), threads_(threads) {
    streamed_ = s_.m <= kStreamedRows || s_.a_col != 1;
    matrix_ = s_;
    matrix_.batch_rank = 0;
    panel_bytes_ = streamed_ ? 0 : static_cast<size_t>(s_.k * kWidth) * sizeof(float);
    memory_ = aligned_bytes((panel_bytes_ + 63) / 64 * 64 * static_cast<size_t>(threads));
  }
  void run(const GemmArgs& args, const PackedMatrix* packed) const override {
    for (int64_t i = 0; i < s_.batches(); ++i) {
      int64_t a = 0, c = 0, index = i;
      for (int d = s_.batch_rank - 1; d >= 0; --d) {
        a += index % s_.batch[d] * s_.a_batch[d];
        c += index % s_.batch[d] * s_.c_batch[d];
        index /= s_.batch[d];
      }
      GemmArgs one = args;
      one.a = static_cast<const float*>(args.a) + a;
      one.c = static_cast<float*>(args.c) + c;
      // Among the operands of the epilogue, matrices have the layout of c.
      for (int p = 0; p < kMaxPostOps; ++p) {
        if (s_.epilogue.ops[static_cast<size_t>(p)] == PostOp::add_matrix)
          one.vectors[p] = static_cast<const float*>(args.vectors[p]) + c;
      }
      if (s_.m == 0 || s_.n == 0) return;
      parallel_for(
          panels_of(s_.n), threads_ > 1,
          [&](int64_t begin, int64_t end, int thread) { panels(one, packed, begin, end, thread); },
          kStreamedPanels);
    }
  }
  const char* name() const override { return streamed_ ? "byte weights" : "widened bytes"; }

 private:
  void panels(const GemmArgs& args, const PackedMatrix* packed, int64_t begin, int64_t end,
              int thread) const {
    const auto* weights = static_cast<const ByteWeights*>(packed->impl());
    if (streamed_) {
      own_kernels().run_byte_panels(matrix_, args, weights->bytes.get(), weights->type, begin, end);
      return;
    }
    auto* const wide =
        reinterpret_cast<float*>(memory_.get() + (panel_bytes_ + 63) / 64 * 64 * static_cast<size_t>(thread));
    for (int64_t p = begin; p < end; ++p) {
      const int64_t panel_size = s_.k * kWidth * static_cast<int64_t>(size_of(weights->type));
      own_kernels().widen_panel(weights->bytes.get() + p * panel_size, weights->type, s_.k, wide);
      const Panels same = {kWidth, 0};  // every panel lies there
      if (tile_kernels() != nullptr)
        tile_kernels()->multiply(matrix_, args, wide, same, {0, s_.m, p, p + 1});
      else
        own_kernels().run_panels(matrix_, args, wide, same, p, p + 1);
    }
  }

  GemmShape s_, matrix_;
  int threads_;
  bool streamed_ = true;
  size_t panel_bytes_ = 0;
  AlignedBytes memory_;
};

}  // namespace

namespace {

template <class Bits>
void pack_panels_of(int64_t k, int64_t n, const Bits* b, int64_t b_row, int64_t b_col, Bits* to) {
  for (int64_t p = 0; p < panels_of(n); ++p) {
    const int64_t columns = std::min(kWidth, n - p * kWidth);
    for (int64_t i = 0; i < k; ++i, to += kWidth) {
      const Bits* const row = b + i * b_row + p * kWidth * b_col;
      if (columns < kWidth) std::memset(to, 0, kWidth * sizeof(Bits));
      for (int64_t j = 0; j < columns; ++j) to[j] = row[j * b_col];
    }
  }
}

}  // namespace

ByteWeights* pack_byte_weights(DType type, int64_t k, int64_t n, const void* b, int64_t b_row,
                               int64_t b_col) {
  auto packed = std::make_unique<ByteWeights>();
  packed->type = type;
  packed->size = static_cast<size_t>(panels_of(n) * k * kWidth) * size_of(type);
  packed->bytes = aligned_bytes(packed->size);
  if (size_of(type) == 1)
    pack_panels_of(k, n, static_cast<const uint8_t*>(b), b_row, b_col,
                   reinterpret_cast<uint8_t*>(packed->bytes.get()));
  else
    pack_panels_of(k, n, static_cast<const uint16_t*>(b), b_row, b_col,
                   reinterpret_cast<uint16_t*>(packed->bytes.get()));
  return packed.release();
}

std::unique_ptr<GemmKernel> make_byte_weights(const GemmShape& shape, int threads) {
  return std::make_unique<ByteWeightsGemm>(shape, threads);
}

}  // namespace braid::rt
