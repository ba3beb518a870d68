// Timelines at unit costs: dependencies, containers, rows that wait for each other, and drawings.
#include "passes/pipeline/ideal_timeline.h"

#include <gtest/gtest.h>

#include "passes/pipeline/csv.h"
#include "passes/pipeline/generators.h"

namespace braid::pipeline {
namespace {

TEST(IdealTimeline, DrawsOneStagePerRankWithoutStages) {
  const Schedule s = find_generator("1F1B").generate({2, 2, 3});
  const IdealTimeline t = ideal_timeline(s);
  EXPECT_EQ(draw(s, t),
            "rank 0  F0 F1 .  .  B0 -- F2 B1 -- .  B2 --\n"
            "rank 1  .  F0 B0 -- F1 B1 -- F2 B2 -- .  .\n");
  EXPECT_EQ(summary(t), "makespan 12, idle 3 on each rank (25.0 %), peak activations 2, 1");
  EXPECT_EQ(draw(s, t, 3), "rank 0  F0 F1 . ...\nrank 1  .  F0 B0 ...\n");
}

TEST(IdealTimeline, ContainersBeginWhenAllMembersCan) {
  const Schedule s =
      parse_schedule("0F0,(0F1;3B0)OVERLAP_F_B,0B0\n1F0,2F0,2B0,1B0\n", {.rank_of_stage = {0, 1, 1, 0}});
  const IdealTimeline t = ideal_timeline(s);
  EXPECT_TRUE(t.stuck);  // 3F0 is missing
  const Schedule whole = parse_schedule("0F0,3F0,(0F1;3B0)OVERLAP_F_B\n1F0,2F0\n");
  EXPECT_EQ(draw(whole, ideal_timeline(whole)),
            "rank 0  0F0  .    .    3F0  0F1+ 3B0  ---\nrank 1  .    1F0  2F0  .    .    .    .\n");
}

TEST(IdealTimeline, RowsThatWaitForEachOtherAreStuck) {
  EXPECT_TRUE(ideal_timeline(parse_schedule("1F0,0F0\n")).stuck);
  EXPECT_TRUE(ideal_timeline(parse_schedule("3F0,0F0\n1F0,2F0\n")).stuck);
  EXPECT_FALSE(ideal_timeline(parse_schedule("")).stuck);
  EXPECT_EQ(draw(parse_schedule(""), ideal_timeline(parse_schedule(""))), "");
}

TEST(IdealTimeline, TransfersTakeNoTime) {
  const Schedule s = parse_schedule("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n");
  EXPECT_EQ(draw(s, ideal_timeline(s)), "rank 0  F0 .  .  .  B0 --\nrank 1  .  F0 B0 -- .  .\n");
}

}  // namespace
}  // namespace braid::pipeline
