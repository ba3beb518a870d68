#include <frontend/op_registry.h>
#include <gtest/gtest.h>
#include <ir/extern_registry.h>
#include <ir/parser.h>
#include <passes/pass.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace {

using braid::ir::DType;
using braid::ir::make_tensor;
using braid::ir::Tensor;

void load() {
  if (braid::ir::find_extern_kernel("row_sort") == nullptr) braid::passes::load_plugin(ROW_SORT_PATH);
}

std::vector<float> sorted(const std::vector<float>& values, bool descending) {
  load();
  const auto schedule = braid::ir::parse_schedule(
      "graph g\ninput %x: f32[2, 3]\n%y: f32[2, 3] = extern \"row_sort\" reads(%x) attributes(descending = " +
      std::string(descending ? "1" : "0") + ")\noutput %y");
  const std::vector<std::vector<Tensor>> inputs = {{make_tensor(DType::f32, {2, 3}, values)}};
  const Tensor y = braid::ir::run(schedule, inputs).outputs[0][0];
  std::vector<float> out(6);
  std::memcpy(out.data(), y.bytes.data(), 6 * sizeof(float));
  return out;
}

TEST(RowSort, SortsEveryRow) {
  EXPECT_EQ(sorted({3, 1, 2, -1, 0, -2}, false), (std::vector<float>{1, 2, 3, -2, -1, 0}));
  EXPECT_EQ(sorted({3, 1, 2, -1, 0, -2}, true), (std::vector<float>{3, 2, 1, 0, -1, -2}));
}

TEST(RowSort, IsComputedWholeOnEveryRank) {
  load();
  const auto* row = braid::frontend::find_op("com.example", "RowSort", 1);
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->rule.factors, nullptr);
  EXPECT_STREQ(row->rule.reason, "no rule");
}

TEST(RowSort, PutsNansLast) {
  const std::vector<float> y = sorted({NAN, 1, 2, 5, NAN, NAN}, true);
  EXPECT_EQ(y[0], 2);
  EXPECT_EQ(y[1], 1);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 5);
  EXPECT_TRUE(std::isnan(y[4]));
}

}  // namespace
