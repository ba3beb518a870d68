// Differences between tensors.
#include "harness/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace braid::harness {
namespace {

TEST(Compare, ANotANumberOnOneSideIsTheLargestError) {
  const auto tensor = [](std::vector<float> values) { return ir::make_tensor(ir::DType::f32, {3}, values); };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [a, b] : {std::pair(tensor({1, 0, 2}), tensor({1, nan, 3})),
                             std::pair(tensor({nan, 5, 2}), tensor({4, 5, 2}))}) {
    const Difference d = compare(a, b, {});
    EXPECT_GE(d.mismatches, 1);
    EXPECT_EQ(d.worst, std::isnan(b.values<float>()[1]) ? 1 : 0);
    EXPECT_TRUE(std::isinf(d.max_absolute) && std::isinf(d.max_relative));
  }
  EXPECT_EQ(compare(tensor({nan, 1, 2}), tensor({nan, 1, 2}), {}).mismatches, 0);
}

}  // namespace
}  // namespace braid::harness
