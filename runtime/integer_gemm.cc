#include "runtime/integer_gemm.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "runtime/amx.h"
#include "runtime/kernel_variables.h"
#include "runtime/processor.h"
#include "runtime/team.h"

namespace braid::rt {

const ByteKernels& byte_kernels() {
#ifdef __x86_64__
  static const ByteKernels& found = [&]() -> const ByteKernels& {
    const std::string_view name = word_of(kByteVariable);
    if (name == "baseline" || instruction_set() == InstructionSet::baseline) return baseline::kByteKernels;
    const bool vnni =
        instruction_set() == InstructionSet::avx512 && missing_feature(kFeatureAvx512vnni) == nullptr;
    if (!vnni || name == "avx2") return avx2::kByteKernels;
    return name != "avx512" && has_amx_int8() ? amx::kByteKernels : avx512::kByteKernels;
  }();
  return found;
#else
  return baseline::kByteKernels;
#endif
}

namespace {}  // namespace

void pack_panels(DType type, int64_t k, int64_t n, const void* b, int64_t b_row, int64_t b_col, int64_t begin,
                 int64_t end, int8_t* data, int32_t* column_sums) {
  const uint8_t flip = type == DType::u8 ? 0x80 : 0;  // minus 128
  const auto* from = static_cast<const uint8_t*>(b);
  const int64_t depth = byte_depth(k);
  for (int64_t p = begin; p < end; ++p) {
    const int64_t column = p * kBytePanel, columns = std::min(kBytePanel, n - column);
    int8_t* const to = data + p * depth * kBytePanel;
    uint32_t sums[kBytePanel] = {};
    const int64_t whole = columns == kBytePanel && b_col == 1 ? k / kByteGroup : 0;
    byte_kernels().pack(from + column, b_row, whole, flip, to, sums);
    for (int64_t g = whole; g < depth / kByteGroup; ++g) {
      int8_t* const group = to + g * kByteGroup * kBytePanel;
      const int64_t rows = std::min(kByteGroup, k - g * kByteGroup);
      const uint8_t* const row = from + g * kByteGroup * b_row + column * b_col;
      if (rows == kByteGroup && columns == kBytePanel && b_row == 1) {
        for (int64_t j = 0; j < kBytePanel; ++j)
          std::memcpy(group + j * kByteGroup, row + j * b_col, kByteGroup);
        for (int64_t j = 0; j < kBytePanel * kByteGroup; ++j) group[j] = static_cast<int8_t>(group[j] ^ flip);
      } else {
        std::memset(group, 0, static_cast<size_t>(kByteGroup * kBytePanel));
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t j = 0; j < columns; ++j)
            group[j * kByteGroup + i] = static_cast<int8_t>(row[i * b_row + j * b_col] ^ flip);
        }
      }
      for (int64_t j = 0; j < kBytePanel; ++j) {
        const int8_t* const x = group + j * kByteGroup;
        sums[j] += static_cast<uint32_t>(x[0] + x[1] + x[2] + x[3]);
      }
    }
    std::memcpy(column_sums + column, sums, sizeof sums);
  }
}

ByteMatrix* pack_bytes(DType type, int64_t k, int64_t n, const void* b, int64_t b_row, int64_t b_col) {
  auto packed = std::make_unique<ByteMatrix>();
  packed->type = type;
  packed->k = k;
  packed->n = n;
  packed->size = panel_bytes(k, n);
  packed->bytes = aligned_bytes(packed->size);
  packed->sums = aligned_bytes(static_cast<size_t>(byte_panels(n) * kBytePanel) * sizeof(int32_t));
  pack_panels(type, k, n, b, b_row, b_col, 0, byte_panels(n), reinterpret_cast<int8_t*>(packed->bytes.get()),
              reinterpret_cast<int32_t*>(packed->sums.get()));
  return packed.release();
}

namespace {

constexpr int64_t kBlockBytes = 192 * 1024;

// Rows of a that are copied together. A panel of b is read again for each block.
int64_t block_rows(int64_t depth) {
  const int64_t together = byte_kernels().rows_together;
  return std::clamp(kBlockBytes / std::max<int64_t>(depth, 1) / together, int64_t{1}, int64_t{4}) * together;
}

size_t sums_bytes() {
  return static_cast<size_t>(byte_kernels().rows_together * kBytePanel) * sizeof(int32_t);
}

uint32_t sum_of(const uint8_t* row, int64_t k) {
  uint32_t sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < k; ++i) sum += row[i];
  return sum;
}

}  // namespace

size_t byte_scratch(int64_t k) {
  const int64_t depth = byte_depth(k), rows = block_rows(depth);
  return static_cast<size_t>((rows * depth + 63) / 64 * 64) + static_cast<size_t>(rows) * sizeof(int32_t) +
         sums_bytes();
}

void multiply_bytes(const ByteProduct& product, const ByteRows& rows, const ByteSums& sums,
                    const TilePart& part, std::byte* scratch) {
  const ByteKernels& kernels = byte_kernels();
  const int64_t depth = product.b.depth, block = block_rows(depth);
  auto* const copied = reinterpret_cast<uint8_t*>(scratch);
  auto* const row_start = reinterpret_cast<int32_t*>(scratch + (block * depth + 63) / 64 * 64);
  int32_t* const tile_sums = row_start + block;
  ByteTile tile;
  tile.groups = depth / kByteGroup;
  for (int64_t from = part.row_begin; from < part.row_end; from += block) {
    const int64_t count = std::min(block, part.row_end - from);
    const uint8_t* a = rows.direct(from);
    tile.a_row = rows.direct_stride();
    if (a == nullptr) {
      for (int64_t r = 0; r < count; ++r) rows.copy(from + r, copied + r * depth);
      a = copied;
      tile.a_row = depth;
    }
    for (int64_t r = 0; r < count; ++r) {
      uint32_t start = 0;
      if (product.b.from_unsigned) {
        start = sum_of(a + r * tile.a_row, product.k);
        if (product.signed_rows) start -= 128u * static_cast<uint32_t>(product.k);
        start *= 128u;
      }
      row_start[r] = static_cast<int32_t>(start);
    }
    for (int64_t p = part.column_begin; p < part.column_end; ++p) {
      const int64_t column = p * kBytePanel, columns = std::min(kBytePanel, product.n - column);
      alignas(64) int32_t column_start[kBytePanel] = {};
      if (product.signed_rows) {
        for (int64_t j = 0; j < kBytePanel; ++j)
          column_start[j] =
              static_cast<int32_t>(0u - 128u * static_cast<uint32_t>(product.b.column_sums[column + j]));
      }
      tile.b = product.b.data + p * depth * kBytePanel;
      tile.columns = column_start;
      const int vectors = static_cast<int>((columns + 15) / 16);
      const int64_t ahead_bytes = p + 1 < part.column_end ? depth * kBytePanel : 0;
      for (int64_t begin = 0; begin < count; begin += kernels.rows_together) {
        const int64_t together = std::min(kernels.rows_together, count - begin);
        // Tiles of equal heights, as far as possible.
        const int64_t tiles = (together + kernels.tile_rows - 1) / kernels.tile_rows;
        for (int64_t t = 0; t < tiles; ++t) {
          const int64_t first = begin + together * t / tiles, last = begin + together * (t + 1) / tiles;
          tile.a = a + first * tile.a_row;
          tile.rows = row_start + first;
          tile.sums = tile_sums + (first - begin) * kBytePanel;
          tile.ahead = tile.b + depth * kBytePanel + ahead_bytes * first / count;
          tile.ahead_bytes = ahead_bytes * (last - first) / count;
          kernels.tile(tile, static_cast<int>(last - first), vectors);
        }
        sums.put({tile_sums, kBytePanel, from + begin, together, column, columns});
      }
    }
  }
}

namespace {

class MatrixRows final : public ByteRows {
 public:
  MatrixRows(const GemmShape& s, const uint8_t* a)
      : s_(s),
        a_(a),
        flip_(s.type == DType::i8 ? 0x80 : 0),
        direct_(flip_ == 0 && s.a_col == 1 && s.k % kByteGroup == 0) {}
  const uint8_t* direct(int64_t row) const override { return direct_ ? a_ + row * s_.a_row : nullptr; }
  int64_t direct_stride() const override { return s_.a_row; }
  void copy(int64_t row, uint8_t* to) const override {
    // Locals, which bytes that are written cannot change.
    const uint8_t* const from = a_ + row * s_.a_row;
    const int64_t count = s_.k, step = s_.a_col;
    const uint8_t flip = flip_;
    if (step != 1) {
      for (int64_t k = 0; k < count; ++k) to[k] = from[k * step] ^ flip;
    } else if (flip != 0) {
#pragma omp simd
      for (int64_t k = 0; k < count; ++k) to[k] = from[k] ^ flip;
    } else {
      std::memcpy(to, from, static_cast<size_t>(count));
    }
    std::memset(to + count, 0, static_cast<size_t>(byte_depth(count) - count));
  }

 private:
  const GemmShape& s_;
  const uint8_t* a_;
  uint8_t flip_;
  bool direct_;
};

// Stores sums, or hands them to the program.
class MatrixSums final : public ByteSums {
 public:
  // `row` is that of the first one of the matrix, counted over the batch.
  MatrixSums(const GemmShape& s, const GemmArgs& args, int64_t c, int64_t row)
      : s_(s), args_(args), c_(c), row_(row) {}
  void put(const GemmTile& tile) const override {
    if (s_.finished) {
      GemmTile counted = tile;
      counted.row += row_;
      args_.finish.call(args_.finish.context, counted);
      return;
    }
    for (int64_t r = 0; r < tile.rows; ++r) {
      const int32_t* const from = tile.sums + r * tile.sums_row;
      int32_t* const to =
          static_cast<int32_t*>(args_.c) + c_ + (tile.row + r) * s_.c_row + tile.column * s_.c_col;
      if (s_.c_col == 1) {
        std::memcpy(to, from, static_cast<size_t>(tile.columns) * sizeof(int32_t));
      } else {
        for (int64_t j = 0; j < tile.columns; ++j) to[j * s_.c_col] = from[j];
      }
    }
  }

 private:
  const GemmShape& s_;
  const GemmArgs& args_;
  int64_t c_, row_;
};

class ByteGemm final : public GemmKernel {
 public:
  ByteGemm(const GemmShape& shape, const ByteMatrix* packed, int threads)
      : s_(shape), packed_(packed != nullptr), threads_(threads) {
    const size_t panels = packed_ ? 0 : (panel_bytes(s_.k, s_.n) + 63) / 64 * 64;
    const size_t sums = packed_ ? 0 : static_cast<size_t>(byte_panels(s_.n) * kBytePanel) * sizeof(int32_t);
    work_ = (byte_scratch(s_.k) + 63) / 64 * 64;
    packed_bytes_ = panels + sums;
    // Few matrices are packed by all threads one after another. If there are many, each is packed by the
    // thread that multiplies it.
    by_matrix_ = s_.batches() > 1 && s_.batches() >= threads;
    copies_ = packed_ ? 0 : by_matrix_ ? static_cast<size_t>(threads) : 1;
    memory_ = aligned_bytes(work_ * static_cast<size_t>(threads) + packed_bytes_ * copies_);
  }

  void run(const GemmArgs& args, const PackedMatrix* packed) const override {
    const ByteMatrix* const matrix = packed_ ? static_cast<const ByteMatrix*>(packed->impl()) : nullptr;
    const int64_t panels = byte_panels(s_.n);
    if (by_matrix_) {
      parallel_for(s_.batches(), threads_ > 1, [&](int64_t begin, int64_t end, int own) {
        const auto thread = static_cast<size_t>(own);
        for (int64_t i = begin; i < end; ++i) {
          const BytePanels b =
              matrix != nullptr ? matrix->byte_panels() : pack(args, offsets(i).b, 0, panels, thread);
          multiply(args, i, b, {0, s_.m, 0, panels}, thread);
        }
      });
      return;
    }
    for (int64_t i = 0; i < s_.batches(); ++i) {
      BytePanels b;
      if (matrix != nullptr) {
        b = matrix->byte_panels();
      } else {
        parallel_for(panels, threads_ > 1,
                     [&](int64_t begin, int64_t end) { pack(args, offsets(i).b, begin, end, 0); });
        b = packed_at(0);
      }
      split_tiles(
          threads_, s_.m, panels,
          [&](const TilePart& part, int thread) { multiply(args, i, b, part, static_cast<size_t>(thread)); },
          kBytePanel);
    }
  }
  const char* name() const override { return packed_ ? "bytes" : "unpacked bytes"; }

 private:
  struct Offsets {
    int64_t a = 0, b = 0, c = 0;
  };
  Offsets offsets(int64_t index) const {
    Offsets at;
    for (int d = s_.batch_rank - 1; d >= 0; --d) {
      const int64_t i = index % s_.batch[d];
      index /= s_.batch[d];
      at.a += i * s_.a_batch[d];
      at.b += i * s_.b_batch[d];
      at.c += i * s_.c_batch[d];
    }
    return at;
  }
  std::byte* copy_of(size_t copy) const {
    return memory_.get() + work_ * static_cast<size_t>(threads_) + packed_bytes_ * copy;
  }
  BytePanels packed_at(size_t copy) const {
    std::byte* const at = copy_of(copy);
    return {reinterpret_cast<const int8_t*>(at),
            reinterpret_cast<const int32_t*>(at + (panel_bytes(s_.k, s_.n) + 63) / 64 * 64), byte_depth(s_.k),
            s_.b_type == DType::u8};
  }
  BytePanels pack(const GemmArgs& args, int64_t offset, int64_t begin, int64_t end, size_t copy) const {
    const BytePanels to = packed_at(copy);
    pack_panels(s_.b_type, s_.k, s_.n, static_cast<const uint8_t*>(args.b) + offset, s_.b_row, s_.b_col,
                begin, end, const_cast<int8_t*>(to.data), const_cast<int32_t*>(to.column_sums));
    return to;
  }
  void multiply(const GemmArgs& args, int64_t matrix, const BytePanels& b, const TilePart& part,
                size_t thread) const {
    const Offsets at = offsets(matrix);
    const MatrixRows rows(s_, static_cast<const uint8_t*>(args.a) + at.a);
    const MatrixSums sums(s_, args, at.c, matrix * s_.m);
    multiply_bytes({s_.n, s_.k, s_.type == DType::i8, b}, rows, sums, part, memory_.get() + work_ * thread);
  }

  GemmShape s_;
  bool packed_, by_matrix_ = false;
  int threads_;
  size_t work_ = 0, packed_bytes_ = 0, copies_ = 0;
  AlignedBytes memory_;
};

}  // namespace

std::unique_ptr<GemmKernel> make_byte_gemm(const GemmShape& shape, const ByteMatrix* packed, int threads) {
  return std::make_unique<ByteGemm>(shape, packed, threads);
}

}  // namespace braid::rt
