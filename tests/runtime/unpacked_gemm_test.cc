// Products of f32 operands that no kernel has packed beside sums in float64: on any number of threads, with
// the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/gemm.h"
#include "tests/runtime/between.h"
#include "tests/support/compute_threads.h"
#include "tests/support/random.h"

namespace braid::rt {
namespace {

// Rows or columns are adjacent, or a slice of longer ones.
void lay_out(Random& random, int64_t rows, int64_t columns, int64_t& row, int64_t& column) {
  const int64_t slack = random() % 4 == 0 ? between(random, 1, 9) : 0;
  const bool by_rows = random() % 3 != 0;
  row = by_rows ? columns + slack : 1;
  column = by_rows ? 1 : rows + slack;
}

TEST(UnpackedGemm, AgreesWithSumsInDoubleAndHasTheSameBitsForEveryNumberOfThreads) {
  for (int i = 0; i < test::random_cases(60); ++i) {
    const uint64_t seed = test::first_seed() + static_cast<uint64_t>(i);
    SCOPED_TRACE("BRAID_TEST_SEED=" + std::to_string(seed));
    Random random(seed);
    GemmShape s;
    s.m = between(random, 1, random() % 4 == 0 ? 500 : 70);
    s.n = between(random, 1, random() % 4 == 0 ? 500 : 70);
    s.k = between(random, 1, random() % 4 == 0 ? 1500 : 100);
    lay_out(random, s.m, s.k, s.a_row, s.a_col);
    lay_out(random, s.k, s.n, s.b_row, s.b_col);
    lay_out(random, s.m, s.n, s.c_row, s.c_col);
    if (s.c_col == 1 && random() % 2 == 0) s.epilogue.ops[0] = PostOp::add_vector;
    const std::vector<float> a = random_floats(random, s.m * s.a_row + s.k * s.a_col),
                             b = random_floats(random, s.k * s.b_row + s.n * s.b_col),
                             bias = random_floats(random, s.n);
    std::vector<float> first;
    for (const int threads : {1, 2, 3, 5}) {
      const test::ComputeThreads scope(threads);
      GemmLibrary library;
      std::vector<float> c(static_cast<size_t>(s.m * s.c_row + s.n * s.c_col));
      GemmArgs args;
      args.a = a.data();
      args.b = b.data();
      args.c = c.data();
      args.vectors[0] = bias.data();
      const GemmKernel* const kernel = library.kernel(s, nullptr);
      kernel->run(args, nullptr);
      if (first.empty()) first = c;
      ASSERT_EQ(std::memcmp(c.data(), first.data(), c.size() * sizeof(float)), 0)
          << kernel->name() << ", " << threads << " threads, " << s.m << " x " << s.n << " x " << s.k;
    }
    for (int64_t row = 0; row < s.m; ++row) {
      for (int64_t column = 0; column < s.n; ++column) {
        double sum = s.epilogue.ops[0] == PostOp::none ? 0 : bias[static_cast<size_t>(column)];
        for (int64_t k = 0; k < s.k; ++k)
          sum += static_cast<double>(a[static_cast<size_t>(row * s.a_row + k * s.a_col)]) *
                 b[static_cast<size_t>(k * s.b_row + column * s.b_col)];
        ASSERT_NEAR(first[static_cast<size_t>(row * s.c_row + column * s.c_col)], sum, 1e-4);
      }
    }
  }
}

}  // namespace
}  // namespace braid::rt
