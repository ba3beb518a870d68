#include "ir/parallel.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>

#include "ir/expr.h"
#include "ir/shared_pool.h"

namespace braid::ir {
namespace {

TEST(ParallelFor, CallsEachNumberOnceOnAnyNumberOfThreads) {
  for (const std::size_t threads : {0, 1, 2, 7, 100}) {
    for (const std::size_t count : {0, 1, 5, 64}) {
      std::vector<int> calls(count, 0);
      parallel_for(count, threads, [&](std::size_t k) { ++calls[k]; });
      EXPECT_EQ(calls, std::vector<int>(count, 1)) << threads;
    }
  }
}

TEST(ParallelFor, ThrowsWhatTheLowestNumberThrewAfterAllCalls) {
  std::atomic<int> calls = 0;
  try {
    parallel_for(50, 4, [&](std::size_t k) {
      ++calls;
      if (k % 10 == 7) throw std::runtime_error(std::to_string(k));
    });
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "7");
  }
  EXPECT_EQ(calls, 50);
}

TEST(ParallelFor, MayBeNested) {
  std::vector<std::vector<int>> calls(6, std::vector<int>(6, 0));
  parallel_for(6, 3, [&](std::size_t i) { parallel_for(6, 3, [&](std::size_t j) { ++calls[i][j]; }); });
  EXPECT_EQ(calls, std::vector<std::vector<int>>(6, std::vector<int>(6, 1)));
}

// Each thread makes the same expressions in another order. Equal ones are one node, with the text that they
// have in a pool of one thread.
TEST(SharedPool, ThreadsMakeTheSameExpressions) {
  constexpr int kThreads = 8, kSteps = 300;
  const auto make = [](ExprPool& pool, int begin) {
    std::vector<Expr> made(kSteps);
    const Expr n = *pool.find_dim("n"), m = *pool.find_dim("m");
    for (int k = 0; k < kSteps; ++k) {
      const int step = (begin + k) % kSteps;
      made[static_cast<std::size_t>(step)] =
          floor_div(n * step + m * m, step + 2) + pool.index(step % 5) * (n + step) + mod(m, 7 + step % 3);
    }
    return made;
  };
  ExprPool alone, shared;
  for (ExprPool* pool : {&alone, &shared}) {
    pool->dim("n", {1, 1000});
    pool->dim("m", {1, 50});
  }
  std::vector<std::vector<Expr>> made(kThreads);
  {
    const std::vector<Expr> of = {Expr(3), *shared.find_dim("m")};
    const SharedPool sharing(of);
    parallel_for(kThreads, kThreads,
                 [&](std::size_t k) { made[k] = make(shared, static_cast<int>(k) * kSteps / kThreads); });
  }
  const std::vector<Expr> expected = make(alone, 0);
  std::set<std::string> distinct;
  for (std::size_t k = 0; k < kSteps; ++k) {
    distinct.insert(to_string(expected[k]));
    for (const std::vector<Expr>& of_thread : made) {
      EXPECT_EQ(to_string(of_thread[k]), to_string(expected[k]));
      EXPECT_TRUE(of_thread[k] == made[0][k]);
    }
  }
  EXPECT_GT(distinct.size(), kSteps / 2);
}

}  // namespace
}  // namespace braid::ir
