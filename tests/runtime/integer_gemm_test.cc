// Products of 8-bit integers beside sums in 64 bits: every set of kernels on this processor, all signs,
// ragged sizes, and the values at which sums of bytes saturate where instructions do.
#include "runtime/integer_gemm.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/amx.h"
#include "runtime/processor.h"
#include "tests/runtime/between.h"
#include "tests/support/compute_threads.h"
#include "tests/support/random.h"

namespace braid::rt {
namespace {

// Bytes of any value, or of the extreme ones only, or all the same one.
std::vector<uint8_t> bytes(Random& random, int64_t count) {
  constexpr uint8_t extremes[] = {0x80, 0x7f, 0xff, 0x00};
  const uint64_t kind = random() % 4;
  const uint8_t same = extremes[random() % 4];
  std::vector<uint8_t> out(static_cast<size_t>(count));
  for (uint8_t& x : out)
    x = kind == 0 ? same : kind == 1 ? extremes[random() % 4] : static_cast<uint8_t>(random());
  return out;
}

int64_t value(DType type, uint8_t x) { return type == DType::i8 ? static_cast<int8_t>(x) : x; }

struct NamedKernels {
  const char* name;
  const ByteKernels* kernels;
};
std::vector<NamedKernels> kernels_here() {
  std::vector<NamedKernels> out = {{"baseline", &baseline::kByteKernels}};
#ifdef __x86_64__
  if (instruction_set() != InstructionSet::baseline) out.push_back({"avx2", &avx2::kByteKernels});
  if (instruction_set() == InstructionSet::avx512 && missing_feature(kFeatureAvx512vnni) == nullptr)
    out.push_back({"avx512", &avx512::kByteKernels});
  if (has_amx_int8()) out.push_back({"amx", &amx::kByteKernels});
#endif
  return out;
}

TEST(IntegerGemm, KernelsPackGroupsLikePlainLoops) {
  for (int i = 0; i < test::random_cases(100); ++i) {
    const uint64_t seed = test::first_seed() + static_cast<uint64_t>(i);
    SCOPED_TRACE("BRAID_TEST_SEED=" + std::to_string(seed));
    Random random(seed);
    const int64_t groups = between(random, 0, 5), b_row = between(random, kBytePanel, 100);
    const uint8_t flip = random() % 2 == 0 ? 0x80 : 0;
    std::vector<uint8_t> rows(static_cast<size_t>(groups * kByteGroup * b_row + kBytePanel));
    for (uint8_t& byte : rows) byte = static_cast<uint8_t>(random());
    for (const auto& [name, kernels] : kernels_here()) {
      std::vector<int8_t> packed(static_cast<size_t>(groups * kByteGroup * kBytePanel));
      std::vector<uint32_t> sums(kBytePanel, 7);
      kernels->pack(rows.data(), b_row, groups, flip, packed.data(), sums.data());
      for (int64_t j = 0; j < kBytePanel; ++j) {
        uint32_t sum = 7;
        for (int64_t k = 0; k < groups * kByteGroup; ++k) {
          const auto byte = static_cast<int8_t>(rows[static_cast<size_t>(k * b_row + j)] ^ flip);
          sum += static_cast<uint32_t>(int32_t{byte});
          const int64_t at = (k / kByteGroup * kBytePanel + j) * kByteGroup + k % kByteGroup;
          ASSERT_EQ(packed[static_cast<size_t>(at)], byte) << name << ", row " << k << ", column " << j;
        }
        ASSERT_EQ(sums[static_cast<size_t>(j)], sum) << name << ", column " << j;
      }
    }
  }
}

TEST(IntegerGemm, TilesOfEveryInstructionSet) {
  for (int i = 0; i < test::random_cases(150); ++i) {
    const uint64_t seed = test::first_seed() + static_cast<uint64_t>(i);
    Random random(seed);
    const int64_t k = i % 10 == 0 ? between(random, 3000, 9000) : between(random, 1, 200);
    const int64_t depth = byte_depth(k), n = between(random, 1, kBytePanel);
    const std::vector<uint8_t> a = bytes(random, kMostByteRows * depth), b = bytes(random, k * n);
    const DType b_type = random() % 2 == 0 ? DType::i8 : DType::u8;
    std::vector<int8_t> panel(panel_bytes(k, n));
    std::vector<int32_t> sums(kBytePanel);
    pack_panels(b_type, k, n, b.data(), n, 1, 0, 1, panel.data(), sums.data());
    std::vector<int32_t> columns(kBytePanel), rows(kMostByteRows);
    for (int32_t& x : columns) x = static_cast<int32_t>(random());
    for (int32_t& x : rows) x = static_cast<int32_t>(random());
    for (const auto& [name, kernels] : kernels_here()) {
      const auto height = between(random, 1, kernels->tile_rows);
      std::vector<int32_t> got(kMostByteRows * kBytePanel);
      ByteTile tile;
      tile.a = a.data();
      tile.a_row = depth;
      tile.groups = depth / kByteGroup;
      tile.b = panel.data();
      tile.columns = columns.data();
      tile.rows = rows.data();
      tile.sums = got.data();
      kernels->tile(tile, static_cast<int>(height), static_cast<int>((n + 15) / 16));
      for (int64_t r = 0; r < height; ++r) {
        for (int64_t j = 0; j < n; ++j) {
          int64_t want = int64_t{columns[static_cast<size_t>(j)]} + rows[static_cast<size_t>(r)];
          for (int64_t x = 0; x < k; ++x) {
            const int64_t stored =
                value(b_type, b[static_cast<size_t>(x * n + j)]) - (b_type == DType::u8 ? 128 : 0);
            want += int64_t{a[static_cast<size_t>(r * depth + x)]} * stored;
          }
          ASSERT_EQ(got[static_cast<size_t>(r * kBytePanel + j)],
                    static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint64_t>(want))))
              << name << ", seed " << seed << ", k " << k << ", row " << r << ", column " << j;
        }
      }
    }
  }
}

TEST(IntegerGemm, DepthwiseOfEveryInstructionSet) {
  for (int i = 0; i < test::random_cases(100); ++i) {
    const uint64_t seed = test::first_seed() + static_cast<uint64_t>(i);
    Random random(seed);
    ByteTaps t;
    t.taps = between(random, 1, 25);
    t.channels = between(random, 1, kBytePanel);
    t.signed_a = random() % 2 == 0;
    t.weights_row = t.channels + between(random, 0, 3);
    t.first = between(random, 0, 70);
    const std::vector<uint8_t> a = bytes(random, t.taps * (t.first + t.channels)),
                               w = bytes(random, t.taps * t.weights_row);
    const DType a_type = t.signed_a ? DType::i8 : DType::u8,
                b_type = random() % 2 == 0 ? DType::i8 : DType::u8;
    std::vector<int32_t> weights;
    for (uint8_t x : w) weights.push_back(static_cast<uint16_t>(value(b_type, x)));
    t.positions = between(random, 1, 9);
    const std::vector<uint8_t> zeros(static_cast<size_t>(t.first + t.channels));
    std::vector<const uint8_t*> rows;
    for (int64_t k = 0; k < t.positions * t.taps; ++k) {
      const auto from = between(random, 0, t.taps - 1);
      rows.push_back(random() % 4 == 0 ? zeros.data() : a.data() + from * (t.first + t.channels));
    }
    t.a = rows.data();
    t.weights = weights.data();
    for (const auto& [name, kernels] : kernels_here()) {
      std::vector<int32_t> got(static_cast<size_t>(t.positions * kBytePanel), 7);
      t.sums = got.data();
      t.sums_row = kBytePanel;
      kernels->depthwise(t);
      for (int64_t r = 0; r < t.positions; ++r) {
        for (int64_t c = 0; c < kBytePanel; ++c) {
          int64_t want = c < t.channels ? 0 : 7;
          for (int64_t k = 0; k < t.taps && c < t.channels; ++k) {
            want += value(a_type, rows[static_cast<size_t>(r * t.taps + k)][t.first + c]) *
                    static_cast<int16_t>(weights[static_cast<size_t>(k * t.weights_row + c)]);
          }
          ASSERT_EQ(got[static_cast<size_t>(r * kBytePanel + c)], want)
              << name << ", seed " << seed << ", position " << r << ", channel " << c;
        }
      }
    }
  }
}

// A matrix in memory: its bytes, and strides in any order, with gaps.
struct Matrix {
  std::vector<uint8_t> data;
  int64_t row = 0, column = 0, batch = 0;
};
Matrix matrix(Random& random, int64_t batches, int64_t rows, int64_t columns) {
  Matrix m;
  const int64_t gap = random() % 2 == 0 ? 0 : between(random, 1, 5);
  if (random() % 3 == 0) {
    m.row = 1;
    m.column = rows + gap;
    m.batch = columns * m.column;
  } else {
    m.column = random() % 8 == 0 ? 2 : 1;
    m.row = columns * m.column + gap;
    m.batch = rows * m.row;
  }
  m.data = bytes(random, std::max<int64_t>(1, batches * m.batch));
  return m;
}

TEST(IntegerGemm, ShapesOfTheLibrary) {
  for (int i = 0; i < test::random_cases(250); ++i) {
    const uint64_t seed = test::first_seed() + static_cast<uint64_t>(i);
    Random random(seed);
    const test::ComputeThreads threads_of_case(1 + static_cast<int>(random() % 2));
    GemmShape s;
    s.type = random() % 2 == 0 ? DType::i8 : DType::u8;
    s.b_type = random() % 2 == 0 ? DType::i8 : DType::u8;
    s.c_type = DType::i32;
    s.m = i % 7 == 0 ? between(random, 60, 150) : between(random, 0, 30);
    s.n = i % 5 == 0 ? between(random, 100, 300) : between(random, 0, 70);
    s.k = i % 11 == 0 ? between(random, 2000, 5000) : between(random, 0, 90);
    const bool constant = random() % 2 == 0;
    const int64_t batches = random() % 3 == 0 ? between(random, 1, 4) : 1;
    const bool shared_b = constant || random() % 2 == 0;
    const Matrix a = matrix(random, batches, s.m, s.k), b = matrix(random, shared_b ? 1 : batches, s.k, s.n);
    s.a_row = a.row;
    s.a_col = a.column;
    s.b_row = b.row;
    s.b_col = b.column;
    s.c_col = random() % 4 == 0 ? 3 : 1;
    s.c_row = s.n * s.c_col;
    const int64_t c_batch = s.m * s.c_row;
    if (batches > 1 || random() % 2 == 0) {
      s.batch_rank = 1;
      s.batch[0] = batches;
      s.a_batch[0] = a.batch;
      s.b_batch[0] = shared_b ? 0 : b.batch;
      s.c_batch[0] = c_batch;
    }
    s.finished = random() % 2 == 0;
    std::vector<int32_t> c(static_cast<size_t>(batches * c_batch), -7);
    GemmLibrary library;
    PackedMatrix packed;
    if (constant) packed = library.pack(s.type, s.b_type, s.k, s.n, b.data.data(), b.row, b.column);
    std::vector<int> times(static_cast<size_t>(batches * s.m * s.n), 0);
    const auto finish = [&](const GemmTile& tile) {
      for (int64_t r = 0; r < tile.rows; ++r) {
        for (int64_t j = 0; j < tile.columns; ++j) {
          const int64_t row = tile.row + r, column = tile.column + j;
          c[static_cast<size_t>(row * s.c_row + column * s.c_col)] = tile.sums[r * tile.sums_row + j];
          ++times[static_cast<size_t>(row * s.n + column)];
        }
      }
    };
    GemmArgs args;
    args.a = a.data.data();
    args.b = constant && packed.valid() ? nullptr : b.data.data();
    args.c = c.data();
    if (s.finished) {
      args.c = nullptr;
      args.finish = FinishTile(finish);
    }
    library.kernel(s, constant ? &packed : nullptr)->run(args, constant ? &packed : nullptr);
    for (int64_t z = 0; z < batches; ++z) {
      for (int64_t m = 0; m < s.m; ++m) {
        for (int64_t n = 0; n < s.n; ++n) {
          int64_t want = 0;
          for (int64_t k = 0; k < s.k; ++k) {
            want +=
                value(s.type, a.data[static_cast<size_t>(z * a.batch + m * a.row + k * a.column)]) *
                value(s.b_type,
                      b.data[static_cast<size_t>((shared_b ? 0 : z * b.batch) + k * b.row + n * b.column)]);
          }
          ASSERT_EQ(c[static_cast<size_t>(z * c_batch + m * s.c_row + n * s.c_col)],
                    static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint64_t>(want))))
              << "seed " << seed << ": " << s.m << "x" << s.n << "x" << s.k << ", matrix " << z << ", row "
              << m << ", column " << n;
          if (s.finished) {
            ASSERT_EQ(times[static_cast<size_t>((z * s.m + m) * s.n + n)], 1) << "seed " << seed;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace braid::rt
