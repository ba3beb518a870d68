// The extern kernels `scatter` and `cumulative` on the host, beside loops over single elements: random sizes
// with 0 and 1, several updates of one row, positions out of range, and the same bits for every number of
// threads.
#include "runtime/host/scatter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "runtime/host/cumulative.h"
#include "tests/runtime/between.h"
#include "tests/support/compute_threads.h"
#include "tests/support/random.h"

namespace braid::rt {
namespace {

// Small whole numbers, so that sums and products of floats are exact.
template <class T>
std::vector<T> whole_numbers(Random& random, int64_t count, int64_t low, int64_t high) {
  std::vector<T> out(static_cast<size_t>(count));
  for (T& x : out) x = static_cast<T>(between(random, low, high));
  return out;
}

template <class T>
constexpr BraidDType type_code() {
  if constexpr (std::is_same_v<T, float>) return BRAID_F32;
  if constexpr (std::is_same_v<T, double>) return BRAID_F64;
  if constexpr (std::is_same_v<T, int16_t>) return BRAID_I16;
  if constexpr (std::is_same_v<T, uint8_t>) return BRAID_U8;
  return BRAID_I64;
}

template <class T>
BraidTensorView view_of(const std::vector<T>& data, std::initializer_list<int64_t> sizes) {
  return tensor_view(type_code<T>(), data.data(), sizes, {0, 0, 0});
}

template <class T>
T combined(const std::string& reduction, T old, T update) {
  if (reduction == "add") return static_cast<T>(old + update);
  if (reduction == "mul") return static_cast<T>(old * update);
  if (reduction == "max") return std::max(old, update);
  return reduction == "min" ? std::min(old, update) : update;
}

// Calls call(out) with one and with three threads.
template <class T, class Call>
void expect_result(const std::vector<T>& expected, const Call& call) {
  for (const int threads : {1, 3}) {
    const test::ComputeThreads threads_of_case(threads);
    std::vector<T> out(expected.size(), T(99));
    EXPECT_EQ(call(out), nullptr);
    EXPECT_EQ(out, expected) << threads << " threads";
  }
}

template <class T>
void check_scatter(Random& random, const std::string& reduction) {
  const bool large = random() % 8 == 0;
  const int64_t blocks = between(random, 0, 4), rows = between(random, 0, large ? 3000 : 9),
                width = random() % 2 == 0 ? 1 : between(random, 0, large ? 60 : 5),
                n = between(random, 0, large ? 2000 : 12);
  const int64_t most = reduction == "mul" ? 1 : 2;
  const auto data = whole_numbers<T>(random, blocks * rows * width, 0, 2),
             updates = whole_numbers<T>(random, blocks * n * width, 0, most);
  const auto positions = whole_numbers<int64_t>(random, blocks * n, -1, rows);
  std::vector<T> expected = data;
  for (int64_t update = 0; update < blocks * n; ++update) {
    const int64_t row = positions[static_cast<size_t>(update)];
    for (int64_t j = 0; j < width && row >= 0 && row < rows; ++j) {
      T& old = expected[static_cast<size_t>((update / n * rows + row) * width + j)];
      old = combined(reduction, old, updates[static_cast<size_t>(update * width + j)]);
    }
  }
  const auto call = [&](const std::vector<T>& from, const std::vector<T>& to) {
    return call_extern(
        scatter,
        {view_of(from, {blocks, rows, width}), tensor_view(BRAID_I64, positions.data(), {blocks, n}, {0, 0}),
         view_of(updates, {blocks, n, width})},
        {view_of(to, {blocks, rows, width})}, {attribute("reduction", reduction.c_str())}, nullptr);
  };
  expect_result(expected, [&](std::vector<T>& out) { return call(data, out); });
  expect_result(expected, [&](std::vector<T>& out) {
    out = data;
    return call(out, out);
  });
}

TEST(Scatter, AgreesWithALoopOverElements) {
  for (int i = 0; i < test::random_cases(60); ++i) {
    const uint64_t seed = test::first_seed() + static_cast<uint64_t>(i);
    SCOPED_TRACE("BRAID_TEST_SEED=" + std::to_string(seed));
    Random random(seed);
    for (const char* reduction : {"none", "add", "mul", "max", "min"}) {
      SCOPED_TRACE(reduction);
      check_scatter<float>(random, reduction);
      check_scatter<double>(random, reduction);
      check_scatter<int16_t>(random, reduction);
      check_scatter<uint8_t>(random, reduction);
      check_scatter<int64_t>(random, reduction);
    }
  }
}

TEST(Scatter, NotANumberStays) {
  const std::vector<float> data = {1, NAN, 3}, updates = {NAN, 5, 2};
  const std::vector<int64_t> positions = {0, 1, 2};
  for (const char* reduction : {"max", "min"}) {
    std::vector<float> out(3);
    call_extern(scatter,
                {view_of(data, {1, 3, 1}), tensor_view(BRAID_I64, positions.data(), {1, 3}, {0, 0}),
                 view_of(updates, {1, 3, 1})},
                {view_of(out, {1, 3, 1})}, {attribute("reduction", reduction)}, nullptr);
    EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[1])) << reduction;
    EXPECT_EQ(out[2], std::string(reduction) == "max" ? 3 : 2);
  }
}

template <class T>
void check_cumulative(Random& random) {
  const bool large = random() % 8 == 0, product = random() % 2 == 0, exclusive = random() % 2 == 0,
             reverse = random() % 2 == 0;
  const int64_t outer = between(random, 0, large ? 10 : 4), n = between(random, 0, large ? 300 : 9),
                inner = random() % 2 == 0 ? 1 : between(random, 0, large ? 1500 : 5);
  const auto x = product ? whole_numbers<T>(random, outer * n * inner, 0, 1)
                         : whole_numbers<T>(random, outer * n * inner, 0, 3);
  std::vector<T> expected(x.size());
  for (int64_t lane = 0; lane < outer * inner; ++lane) {
    T carry = product ? T(1) : T(0);
    for (int64_t k = 0; k < n; ++k) {
      const int64_t i = reverse ? n - 1 - k : k;
      const auto at = static_cast<size_t>((lane / inner * n + i) * inner + lane % inner);
      const T before = carry;
      carry = static_cast<T>(product ? carry * x[at] : carry + x[at]);
      expected[at] = exclusive ? before : carry;
    }
  }
  expect_result(expected, [&](std::vector<T>& out) {
    return call_extern(cumulative, {view_of(x, {outer, n, inner})}, {view_of(out, {outer, n, inner})},
                       {attribute("exclusive", int64_t{exclusive}), attribute("product", int64_t{product}),
                        attribute("reverse", int64_t{reverse})},
                       nullptr);
  });
}

TEST(Cumulative, AgreesWithALoopOverElements) {
  for (int i = 0; i < test::random_cases(80); ++i) {
    const uint64_t seed = test::first_seed() + static_cast<uint64_t>(i);
    SCOPED_TRACE("BRAID_TEST_SEED=" + std::to_string(seed));
    Random random(seed);
    check_cumulative<float>(random);
    check_cumulative<double>(random);
    check_cumulative<int16_t>(random);
    check_cumulative<uint8_t>(random);
    check_cumulative<int64_t>(random);
  }
}

}  // namespace
}  // namespace braid::rt
