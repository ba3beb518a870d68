#include "codegen/c_expr.h"

#include <gtest/gtest.h>

#include "ir/graph.h"

namespace braid::codegen {
namespace {

using ir::Expr;

constexpr std::int64_t kMillion = 1 << 20;

struct Dims {
  ir::Graph graph;
  Expr n = graph.add_dim("n", {1, kMillion}), m = graph.add_dim("m", {1, kMillion});
};

TEST(FitsInt32, AQuotientCountsWithItsOwnSizeInAProduct) {
  Dims d;
  EXPECT_TRUE(fits_int32(ir::floor_div(d.n, 1024) * kMillion));
  EXPECT_TRUE(fits_int32(ir::mod(d.n, 1024) * kMillion));
  EXPECT_TRUE(fits_int32(ir::min(d.n, 1024) * kMillion));
  EXPECT_FALSE(fits_int32(d.n * kMillion));
  EXPECT_FALSE(fits_int32(ir::floor_div(d.n, 256) * kMillion));
}

TEST(FitsInt32, IntermediateResultsCount) {
  Dims d;
  EXPECT_FALSE(fits_int32(ir::floor_div(d.n * d.m, kMillion)));
  EXPECT_FALSE(fits_int32(ir::min(d.n * d.m, 5)));
  EXPECT_FALSE(fits_int32(ir::mod(d.n * d.m, 7) * 3));
  EXPECT_FALSE(fits_int32(d.n * d.m - d.n * d.m + ir::min(d.n * d.m, 5) * 2));
}

TEST(FitsInt32, AFactorThatIsZeroLeavesTheOthers) {
  Dims d;
  EXPECT_FALSE(fits_int32(ir::floor_div(d.n, 2 * kMillion) + ir::floor_div(d.n * d.m, 2)));
}

}  // namespace
}  // namespace braid::codegen
