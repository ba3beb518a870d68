#include <gtest/gtest.h>

#include "pipeline/draw_text.h"
#include "tests/pipeline/lowering_rows.h"

namespace braid::test {
namespace {

using analysis::Time;

std::string drawn(const PipelineCosts& costs, int columns) {
  const PipelineSchedule s = schedule({0}, 2, {"0F0,0F1,0B0,0B1"});
  return draw_text(s, simulate(s, costs), {.columns = columns});
}

TEST(DrawText, CutsOffBehindTheColumns) {
  const PipelineCosts costs = unit_costs(schedule({0}, 2, {"0F0,0F1,0B0,0B1"}));
  EXPECT_EQ(drawn(costs, 200), "rank 0 | F0 F1 B0--- B1---\n");
  EXPECT_EQ(drawn(costs, 18), "rank 0 | F0 F1 B0--- B1---\n");
  EXPECT_EQ(drawn(costs, 17), "rank 0 | F0 F1 B0--- B1-- ...\n");
  EXPECT_EQ(drawn(costs, 7), "rank 0 | F0 F1  ...\n");
}

// A picture in units of the shortest action would have 10^15 columns.
TEST(DrawText, TakesNoMoreMemoryThanItPrints) {
  PipelineCosts costs = unit_costs(schedule({0}, 1, {"0F0,0B0"}));
  costs.stages[0].forward = {1};
  costs.stages[0].full_backward = Time::from_us(1e9);
  EXPECT_EQ(drawn(costs, 12), "rank 0 | F0 F1 B0--- ...\n");
}

}  // namespace
}  // namespace braid::test
