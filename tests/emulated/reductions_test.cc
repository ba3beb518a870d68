#include "tests/emulated/reductions.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "tests/emulated/support.h"

namespace braid::test {
namespace {

class ReductionsTest : public EmulatedTest, public ::testing::WithParamInterface<int> {};

// The operations of a butterfly over 32 lanes, in the GPU's order.
template <class T, class F>
T butterfly(std::vector<T> lanes, F apply) {
  for (size_t distance = 16; distance > 0; distance /= 2) {
    std::vector<T> next(32);
    for (size_t i = 0; i < 32; ++i) next[i] = apply(lanes[i], lanes[i ^ distance]);
    lanes = next;
  }
  return lanes[0];
}

template <class T, class F>
T block(const std::vector<T>& values, T neutral, F apply) {
  std::vector<T> partial(32, neutral);
  for (size_t warp = 0; warp < values.size() / 32; ++warp)
    partial[warp] = butterfly(std::vector<T>(values.begin() + static_cast<std::ptrdiff_t>(warp * 32),
                                             values.begin() + static_cast<std::ptrdiff_t>(warp * 32 + 32)),
                              apply);
  return values.size() == 32 ? partial[0] : butterfly(partial, apply);
}

TEST_P(ReductionsTest, AreLaneExact) {
  const int threads = GetParam();
  auto results = std::make_unique<ReductionResults>();
  ASSERT_EQ(run_reductions(threads, results.get()), nullptr);
  std::vector<float> values;
  std::vector<double> doubles;
  std::vector<int> whole;
  for (int i = 0; i < threads; ++i) {
    values.push_back(reduction_value(i));
    doubles.push_back(reduction_value(i));
    whole.push_back(static_cast<int>(reduction_value(i) * 8.0f));
  }
  const auto add = [](auto a, auto b) { return a + b; };
  const auto highest = [](auto a, auto b) { return std::max(a, b); };
  const auto lowest = [](auto a, auto b) { return std::min(a, b); };
  const int positive =
      static_cast<int>(std::count_if(whole.begin(), whole.end(), [](int x) { return x > 0; }));
  for (int i = 0; i < threads; ++i) {
    const int warp = i / 32 * 32, lane = i % 32;
    const size_t w = static_cast<size_t>(warp);
    ASSERT_EQ(results->float_sum[i], block(values, 0.0f, add)) << i;
    ASSERT_EQ(results->float_max[i], block(values, -INFINITY, highest)) << i;
    ASSERT_EQ(results->float_min[i], block(values, INFINITY, lowest)) << i;
    ASSERT_EQ(results->double_sum[i], block(doubles, 0.0, add)) << i;
    ASSERT_EQ(results->int_sum[i], block(whole, 0, add)) << i;
    ASSERT_EQ(results->int_max[i], block(whole, INT32_MIN, highest)) << i;
    ASSERT_EQ(results->int_min[i], block(whole, INT32_MAX, lowest)) << i;
    ASSERT_EQ(results->xored[i], values[w + static_cast<size_t>(lane ^ 5)]) << i;
    ASSERT_EQ(results->up[i], values[w + static_cast<size_t>(lane < 3 ? lane : lane - 3)]) << i;
    ASSERT_EQ(results->down[i], values[w + static_cast<size_t>(lane % 8 >= 5 ? lane : lane + 3)]) << i;
    ASSERT_EQ(results->broadcast[i], whole[w + 7]) << i;
    int half = 0;
    unsigned ballot = 0;
    for (int k = 0; k < 16; ++k) half += whole[w + static_cast<size_t>(lane / 16 * 16 + k)];
    for (int k = 0; k < 32; ++k) ballot |= (whole[w + static_cast<size_t>(k)] % 2 == 0 ? 1u : 0u) << k;
    ASSERT_EQ(results->half_warp[i], half) << i;
    ASSERT_EQ(results->ballot[i], ballot) << i;
    ASSERT_EQ(results->count[i], positive) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, ReductionsTest, ::testing::Values(32, 64, 256, 992, 1024));

}  // namespace
}  // namespace braid::test
