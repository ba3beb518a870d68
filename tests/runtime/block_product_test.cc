// Products by blocks of weights: all kernels and numbers of threads give the bits of the definition, which
// agree with float64.
#include "runtime/block_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "runtime/processor.h"
#include "tests/runtime/between.h"
#include "tests/support/compute_threads.h"
#include "tests/support/random.h"

namespace braid::rt {
namespace {

TEST(BlockProduct, EveryInstructionSetAndNumberOfThreadsGivesTheSameBits) {
  std::vector<std::pair<std::string, BlockColumns>> sets = {{"baseline", baseline::block_columns}};
#ifdef __x86_64__
  if (instruction_set() != InstructionSet::baseline) sets.emplace_back("avx2", avx2::block_columns);
  if (instruction_set() == InstructionSet::avx512) sets.emplace_back("avx512", avx512::block_columns);
#endif
  for (int i = 0; i < test::random_cases(120); ++i) {
    const uint64_t seed = test::first_seed() + static_cast<uint64_t>(i);
    Random random(seed);
    BlockProduct p;
    p.m = between(random, 0, 19);
    p.n = i % 4 == 0 ? between(random, 150, 400) : between(random, 1, 40);
    p.bits = random() % 2 == 0 ? 4 : 8;
    p.block = block_group(p.bits) * between(random, 1, 4);
    p.k = i % 5 == 0 ? between(random, 500, 1500) : between(random, 1, 200);
    const int64_t blocks = p.blocks(), per_row = blocks * p.block * p.bits / 8;
    const auto size = [](int64_t n) { return static_cast<size_t>(n); };
    std::vector<float> x(size(p.m * p.k)), scales(size(p.n * blocks)), work(size(p.m * blocks * p.block));
    std::vector<uint8_t> weights(size(p.n * per_row)), zeros(scales.size());
    for (float& v : x) v = std::uniform_real_distribution<float>(-3, 3)(random);
    for (float& v : scales) v = std::uniform_real_distribution<float>(0.01f, 1)(random);
    for (uint8_t& v : weights) v = static_cast<uint8_t>(random());
    for (uint8_t& v : zeros) v = static_cast<uint8_t>(random() % (size_t{1} << p.bits));
    p.x = x.data();
    p.weights = weights.data();
    p.scales = scales.data();
    if (random() % 2 == 0) p.zeros = zeros.data();
    p.work = work.data();
    std::vector<float> first(size(p.m * p.n)), again(first.size());
    p.y = first.data();
    const test::ComputeThreads one(1);
    run_block_product(p);
    for (int64_t r = 0; r < p.m; ++r) {
      for (int64_t c = 0; c < p.n; ++c) {
        double want = 0, largest = 0;
        for (int64_t k = 0; k < p.k; ++k) {
          const int byte = weights[size(c * per_row + k * p.bits / 8)];
          const int q = p.bits == 8 ? byte : (k % 2 == 0 ? byte & 15 : byte >> 4);
          const int64_t at = c * blocks + k / p.block;
          const int zero = p.zeros != nullptr ? zeros[size(at)] : 1 << (p.bits - 1);
          const double term =
              static_cast<double>(x[size(r * p.k + k)]) * (q - zero) * static_cast<double>(scales[size(at)]);
          want += term;
          largest += std::fabs(term);
        }
        ASSERT_NEAR(static_cast<double>(first[size(r * p.n + c)]), want, 1e-6 * (largest + 1))
            << "seed " << seed << ", row " << r << ", column " << c;
      }
    }
    p.y = again.data();
    const auto expect_same = [&](const std::string& what) {
      ASSERT_TRUE(first.empty() || std::memcmp(first.data(), again.data(), first.size() * sizeof(float)) == 0)
          << what << ", seed " << seed;
    };
    const test::ComputeThreads threads_of_case(3);
    run_block_product(p);
    expect_same("3 threads");
    for (const auto& [name, columns] : sets) {
      std::fill(again.begin(), again.end(), -7.0f);
      arrange_rows(p);
      const int64_t middle = p.n / 3;
      columns(p, 0, middle);
      columns(p, middle, p.n);
      expect_same(name);
    }
  }
}

}  // namespace
}  // namespace braid::rt
