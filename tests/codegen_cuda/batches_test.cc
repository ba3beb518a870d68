// Batch dimensions as calls of the library: every element of every result is computed once, from the same row
// and column, at the promised alignment.
#include "runtime/cuda/batches.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/random.h"

namespace braid::rt::cuda {
namespace {

using Random = std::mt19937_64;

int64_t below(Random& random, int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); }

struct Offsets {
  int64_t a = 0, b = 0, d = 0;
};

// The first elements of all matrices of these dimensions.
std::vector<Offsets> matrices(const GemmBatch* level, int levels) {
  std::vector<Offsets> out = {{}};
  for (int k = 0; k < levels; ++k) {
    std::vector<Offsets> next;
    for (const Offsets& at : out) {
      for (int64_t i = 0; i < level[k].size; ++i)
        next.push_back({at.a + i * level[k].a, at.b + i * level[k].b, at.d + i * level[k].d});
    }
    out = next;
  }
  return out;
}

// Element of D -> where its row of A (column, if A is transposed) and its column of B (row) begin.
using Elements = std::multimap<int64_t, std::pair<int64_t, int64_t>>;

Elements elements_of(const GemmProblem& p, const std::vector<Offsets>& all) {
  const auto pitch = [](int64_t leading, int64_t dense) { return leading == 0 ? dense : leading; };
  Elements out;
  for (const Offsets& at : all) {
    for (int64_t m = 0; m < p.m; ++m) {
      for (int64_t n = 0; n < p.n; ++n) {
        out.emplace(at.d + m * pitch(p.ldd, p.n) + n,
                    std::pair(at.a + m * (p.transpose_a ? 1 : pitch(p.lda, p.k)),
                              at.b + n * (p.transpose_b ? pitch(p.ldb, p.k) : 1)));
      }
    }
  }
  return out;
}

std::vector<Offsets> called(const GemmCalls& calls) {
  std::vector<Offsets> out;
  for (const Offsets& repeat : matrices(calls.repeat, calls.repeats)) {
    const GemmProblem& p = calls.problem;
    const GemmBatch strided = {p.batch, p.stride_a, p.stride_b, p.stride_d};
    for (const Offsets& at :
         p.batch_by_pointers ? matrices(calls.pointer, calls.pointers) : matrices(&strided, 1))
      out.push_back({repeat.a + at.a, repeat.b + at.b, repeat.d + at.d});
  }
  return out;
}

// A further dimension, the innermost, of matrices side by side.
void add_columns(Random& random, BatchedGemm& p) {
  GemmProblem& m = p.matrices;
  const int64_t size = 1 + below(random, 4), columns = m.n * size;
  m.transpose_b = below(random, 2) == 0;
  // Rows of B may overlap those of the next matrix.
  const int64_t row = m.transpose_b ? m.k : below(random, 4) == 0 ? m.n : columns;
  if (!m.transpose_b || below(random, 2) == 0) m.ldb = row + below(random, 4);
  for (int k = 0; k < p.levels; ++k) {
    p.level[k].b *= 2 * size + 4;
    p.level[k].d *= 2 * size + 4;
  }
  m.ldd = columns + below(random, 4);
  m.has_bias = below(random, 4) == 0;
  p.level[p.levels++] = {size, 0, m.n * (m.transpose_b ? (m.ldb == 0 ? m.k : m.ldb) : 1), m.n};
}

// Dimensions in any order of the memory of A, with gaps, some of them for all matrices the same.
BatchedGemm random_product(Random& random) {
  BatchedGemm p;
  p.matrices.m = 1 + below(random, 5);
  p.matrices.n = 1 + below(random, 5);
  p.matrices.k = 1 + below(random, 5);
  p.matrices.transpose_a = below(random, 4) == 0;
  p.matrices.input_type = below(random, 2) == 0 ? GemmType::kFloat16 : GemmType::kFloat32;
  p.matrices.output_type = p.matrices.input_type;
  if (below(random, 2) == 0)
    p.matrices.lda = (p.matrices.transpose_a ? p.matrices.m : p.matrices.k) + below(random, 4);
  if (below(random, 2) == 0) p.matrices.ldd = p.matrices.n + below(random, 4);
  p.offset_a = 2 * below(random, 20);
  p.offset_d = below(random, 2) == 0 ? 0 : 4 * below(random, 9);
  p.matrices.beta = static_cast<float>(below(random, 2));
  p.offset_c = 4 * below(random, 9);
  p.levels = static_cast<int>(below(random, 5));
  const int64_t rows = p.matrices.transpose_a ? p.matrices.k : p.matrices.m;
  int64_t a = rows * (p.matrices.lda != 0      ? p.matrices.lda
                      : p.matrices.transpose_a ? p.matrices.m
                                               : p.matrices.k);
  int64_t b = p.matrices.k * p.matrices.n,
          d = p.matrices.m * (p.matrices.ldd == 0 ? p.matrices.n : p.matrices.ldd);
  for (int k = p.levels - 1; k >= 0; --k) {
    GemmBatch& level = p.level[k];
    level.size = below(random, 8) == 0 ? 0 : 1 + below(random, 4);
    const auto step = [&](int64_t& next, bool repeats) {
      if (repeats) return int64_t{0};
      if (below(random, 5) == 0) next += below(random, 20);
      const int64_t now = next;
      next *= std::max<int64_t>(level.size, 1);
      return now;
    };
    level.a = step(a, below(random, 5) == 0);
    level.b = step(b, below(random, 2) == 0);
    level.d = step(d, false);
  }
  if (below(random, 4) == 0) add_columns(random, p);
  return p;
}

void expect_aligned(const GemmCalls& calls, const BatchedGemm& given) {
  const GemmProblem& p = calls.problem;
  const int64_t item = p.input_type == GemmType::kFloat32 ? 4 : 2;
  for (const Offsets& at : called(calls)) {
    EXPECT_EQ((given.offset_a + at.a * item) % p.alignment_a, 0);
    EXPECT_EQ((given.offset_b + at.b * item) % p.alignment_b, 0);
    EXPECT_EQ((given.offset_d + at.d * item) % p.alignment_d, 0);
    if (p.beta != 0) {
      EXPECT_EQ((given.offset_c + at.d * item) % p.alignment_c, 0);
    }
  }
  // C lies as D.
  if (p.beta != 0) {
    EXPECT_EQ(p.ldc, p.ldd);
    EXPECT_EQ(p.stride_c, p.stride_d);
  }
}

TEST(Batches, EveryElementIsComputedOnceFromTheSameOperands) {
  const std::uint64_t first = test::first_seed();
  int merged = 0, rows = 0, columns = 0;
  for (int k = 0; k < test::random_cases(2000); ++k) {
    const std::uint64_t seed = first + static_cast<std::uint64_t>(k);
    SCOPED_TRACE("BRAID_TEST_SEED=" + std::to_string(seed));
    Random random(seed);
    const BatchedGemm given = random_product(random), product = folded(given);
    const Elements expected = elements_of(given.matrices, matrices(given.level, given.levels));
    merged += product.levels < given.levels;
    rows += product.matrices.m > given.matrices.m;
    columns += product.matrices.n > given.matrices.n;
    const GemmProblem& p = product.matrices;
    EXPECT_TRUE(p.transpose_b || p.ldb == 0 || p.ldb >= p.n);
    // Every matrix has the same bias.
    EXPECT_TRUE(!given.matrices.has_bias || product.matrices.n == given.matrices.n);
    ASSERT_EQ(elements_of(product.matrices, matrices(product.level, product.levels)), expected);
    const GemmCalls strided = by_strides(product);
    ASSERT_EQ(elements_of(strided.problem, called(strided)), expected);
    EXPECT_FALSE(strided.problem.batch_by_pointers);
    expect_aligned(strided, given);
    if (product.levels < 2) {
      EXPECT_EQ(strided.repeats, 0);
      continue;
    }
    const GemmCalls pointers = by_pointers(product);
    ASSERT_EQ(elements_of(pointers.problem, called(pointers)), expected);
    EXPECT_EQ(pointers.problem.batch, static_cast<int64_t>(called(pointers).size()));
    expect_aligned(pointers, given);
  }
  EXPECT_GT(merged, 100);
  EXPECT_GT(rows, 20);
  EXPECT_GT(columns, 20);
}

TEST(Batches, AlignmentIsThatOfThePresentSizes) {
  BatchedGemm p;
  p.matrices = {.m = 7,
                .n = 7,
                .k = 4,
                .lda = 24,
                .ldb = 24,
                .ldd = 7,
                .input_type = GemmType::kFloat16,
                .output_type = GemmType::kFloat16};
  p.levels = 2;
  p.level[0] = {3, 7 * 24, 7 * 24, 2 * 49};
  p.level[1] = {2, 4, 4, 49};
  EXPECT_EQ(by_strides(folded(p)).problem.alignment_d, 2);
  p.matrices.n = p.matrices.ldd = 8;
  p.level[0].d = 2 * 56;
  p.level[1].d = 56;
  EXPECT_EQ(by_strides(folded(p)).problem.alignment_d, 16);
  EXPECT_EQ(by_strides(folded(p)).problem.alignment_a, 8);
}

}  // namespace
}  // namespace braid::rt::cuda
