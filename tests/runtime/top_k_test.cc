// The extern kernel `top_k` on the host beside a stable sort: rows of several blocks, with many equal
// elements, infinities and NaN.
#include "runtime/host/top_k.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "tests/runtime/between.h"
#include "tests/support/random.h"

namespace braid::rt {
namespace {

// NaN is larger than any number.
bool less(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
  return a < b;
}

TEST(TopK, AgreesWithAStableSort) {
  for (int i = 0; i < test::random_cases(300); ++i) {
    const uint64_t seed = test::first_seed() + static_cast<uint64_t>(i);
    SCOPED_TRACE("BRAID_TEST_SEED=" + std::to_string(seed));
    Random random(seed);
    const bool largest = random() % 2 == 0;
    const int64_t rows = between(random, 1, 3), n = between(random, 1, 300),
                  k = random() % 2 == 0 ? between(random, 0, n) : std::min<int64_t>(n, 5);
    const int64_t different = between(random, 2, 500);
    std::vector<float> x(static_cast<size_t>(rows * n));
    for (float& v : x) {
      v = static_cast<float>(between(random, 0, different));
      const uint64_t special = random() % 100;
      if (special < 3) v = special == 0 ? NAN : special == 1 ? INFINITY : -INFINITY;
    }
    std::vector<float> values(static_cast<size_t>(rows * k));
    std::vector<int64_t> positions(values.size());
    ASSERT_EQ(call_extern(top_k, {tensor_view(BRAID_F32, x.data(), {rows, n}, {n, 1})},
                          {tensor_view(BRAID_F32, values.data(), {rows, k}, {k, 1}),
                           tensor_view(BRAID_I64, positions.data(), {rows, k}, {k, 1})},
                          {attribute("largest", int64_t{largest})}, nullptr),
              nullptr);
    for (int64_t row = 0; row < rows; ++row) {
      const float* const own = x.data() + row * n;
      std::vector<int64_t> order(static_cast<size_t>(n));
      std::iota(order.begin(), order.end(), int64_t{0});
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return largest ? less(own[b], own[a]) : less(own[a], own[b]);
      });
      for (int64_t j = 0; j < k; ++j)
        ASSERT_EQ(positions[static_cast<size_t>(row * k + j)], order[static_cast<size_t>(j)]) << j;
    }
  }
}

}  // namespace
}  // namespace braid::rt
