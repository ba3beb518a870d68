// The published schedules cell by cell, and what they refuse.
#include "pipeline/generators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "pipeline/csv.h"
#include "pipeline/placement.h"
#include "tests/pipeline/expect_error.h"

namespace braid::pipeline {
namespace {

using test::error_of;
using ::testing::HasSubstr;

std::string rows(const char* name, int ranks, int stages, int microbatches) {
  return print(find_generator(name).generate({ranks, stages, microbatches}));
}

TEST(PipelineGenerators, GPipe) {
  EXPECT_EQ(rows("GPipe", 2, 2, 2), "0F0,0F1,,,,0B0,0B1\n,1F0,1F1,1B0,1B1\n");
}

TEST(PipelineGenerators, OneForwardOneBackward) {
  EXPECT_EQ(rows("1F1B", 2, 2, 3), "0F0,,,0F1,0B0,0F2,0B1,,0B2\n,1F0,1B0,1F1,1B1,1F2,1B2\n");
  const PipelineSchedule s = find_generator("1f1b").generate({4, 4, 6});
  EXPECT_EQ(print(s.rows[3]), ",,,3F0,3B0,3F1,3B1,3F2,3B2,3F3,3B3,3F4,3B4,3F5,3B5");
}

TEST(PipelineGenerators, Interleaved1F1B) {
  EXPECT_EQ(rows("Interleaved1F1B", 2, 4, 4),
            "0F0,0F1,2F0,2F1,,,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,,2B2,,2B3,,0B2,,0B3\n"
            ",1F0,1F1,,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,,1B2,,1B3\n");
}

TEST(PipelineGenerators, LoopedBfs) {
  EXPECT_EQ(rows("LoopedBFS", 2, 4, 2),
            "0F0,0F1,2F0,2F1,,,2B1,2B0,0B1,0B0\n,1F0,1F1,3F0,3F1,3B1,3B0,1B1,1B0\n");
}

TEST(PipelineGenerators, ZbvOverAllItsPhases) {
  EXPECT_EQ(
      rows("ZBV", 2, 4, 4),
      "0F0,0F1,0F2,3F0,3I0,3W0,3F1,3I1,3W1,0F3,0I0,0W0,3F2,3I2,3W2,0I1,0W1,3F3,3I3,3W3,0I2,0W2,0I3,0W3\n"
      ",1F0,2F0,1F1,2F1,2I0,2W0,1F2,1I0,1W0,2F2,2I1,2W1,1F3,1I1,1W1,2F3,2I2,2W2,1I2,2I3,1I3,1W2,2W3,1W3\n");
}

TEST(PipelineGenerators, ZbvLeavesIdleCellsForMicrobatchesThatAreNotThere) {
  EXPECT_EQ(rows("ZBV", 2, 4, 2),
            "0F0,0F1,,3F0,3I0,3W0,3F1,3I1,3W1,0I0,0W0,,,,0I1,0W1,,\n"
            ",1F0,2F0,1F1,2F1,2I0,2W0,,1I0,1W0,,2I1,2W1,1I1,,,1W1,,\n");
}

TEST(PipelineGenerators, DualPipeV) {
  EXPECT_EQ(rows("DualPipeV", 2, 4, 4),
            "0F0,0F1,0F2,3F0,3I0,3W0,3F1,(0F3;3B1)OVERLAP_F_B,(3F2;0B0)OVERLAP_F_B,3B2,(3F3;0B1)OVERLAP_F_B,"
            "3B3,0I2,"
            "0W2,0I3,0W3\n"
            "1F0,2F0,1F1,2F1,1F2,2B0,(2F2;1B0)OVERLAP_F_B,(1F3;2B1)OVERLAP_F_B,(2F3;1B1)OVERLAP_F_B,2B2,1B2,"
            "2I3,1I3,"
            "2W3,1W3\n");
}

TEST(PipelineGenerators, Inference) {
  EXPECT_EQ(rows("Inference", 2, 2, 3), "0F0,0F1,0F2\n,1F0,1F1,1F2\n");
  EXPECT_EQ(rows("InterleavedInference", 2, 4, 4),
            "0F0,0F1,2F0,2F1,0F2,0F3,2F2,2F3\n"
            ",1F0,1F1,3F0,3F1,1F2,1F3,3F2,3F3\n");
  EXPECT_EQ(rows("InterleavedInference", 2, 4, 1), "0F0,,2F0\n,1F0,,3F0\n");
}

// Columns in which a forward stands, in the zero bubble schedule.
TEST(PipelineGenerators, ZeroBubbleForwardsStandBehindThoseOfTheStageBefore) {
  for (const GeneratorOptions o :
       {GeneratorOptions{4, 8, 8}, {4, 16, 4}, {3, 12, 6}, {4, 8, 2}, {2, 2, 8}, {1, 3, 2}}) {
    const PipelineSchedule s = find_generator("ZB1P").generate(o);
    std::map<std::pair<int, int>, std::size_t> column;
    for (const Row& row : s.rows) {
      for (std::size_t c = 0; c < row.size(); ++c) {
        if (row[c].kind == ActionKind::forward) column[{row[c].stage, row[c].microbatch}] = c;
      }
    }
    for (const auto& [f, c] : column) {
      if (f.first == 0) continue;
      EXPECT_GT(c, (column[{f.first - 1, f.second}])) << f.first << "F" << f.second;
    }
  }
}

TEST(PipelineGenerators, EveryStageAndMicrobatchRunsOnceForwardAndOnceBackward) {
  for (const Generator& g : generators()) {
    const bool trains = std::string_view(g.name).find("Inference") == std::string_view::npos;
    int schedules = 0;
    for (int ranks = 1; ranks <= 6; ++ranks) {
      for (int local = 1; local <= 3; ++local) {
        for (int microbatches = 1; microbatches <= 13; ++microbatches) {
          PipelineSchedule s;
          try {
            s = g.generate({ranks, ranks * local, microbatches});
          } catch (const ir::UserError& error) {
            EXPECT_EQ(error.code(), 809);
            continue;
          }
          ++schedules;
          std::multiset<Action> actions;
          for (int r = 0; r < s.ranks(); ++r) {
            for (const Action a : s.rows[r]) {
              if (!is_compute(a.kind)) continue;
              EXPECT_EQ(s.rank_of_stage[a.stage], r);
              actions.insert(a);
            }
          }
          for (int stage = 0; stage < s.stages(); ++stage) {
            for (int m = 0; m < microbatches; ++m) {
              const auto count = [&](ActionKind kind) { return actions.count({kind, stage, m}); };
              EXPECT_EQ(count(ActionKind::forward), 1u);
              EXPECT_EQ(count(ActionKind::backward_input), count(ActionKind::backward_weight));
              EXPECT_EQ(count(ActionKind::full_backward) + count(ActionKind::backward_input),
                        trains ? 1u : 0u);
            }
          }
          EXPECT_EQ(parse_schedule(print(s)), s);
        }
      }
    }
    EXPECT_GT(schedules, 20) << g.name;
  }
}

TEST(PipelineGenerators, InterleavedRoundsMayBeLongerThanTheRanks) {
  EXPECT_NO_THROW(rows("Interleaved1F1B", 4, 8, 3));   // one round
  EXPECT_NO_THROW(rows("Interleaved1F1B", 4, 8, 15));  // three rounds of five
  EXPECT_NO_THROW(rows("Interleaved1F1B", 4, 8, 10));  // two rounds of five
  EXPECT_THAT(error_of([] { rows("Interleaved1F1B", 4, 8, 11); }).what(),
              HasSubstr("error BR0809: Interleaved1F1B with 4 ranks, 8 stages and 11 micro-batches: the "
                        "micro-batches cannot be divided into 2 equal rounds"));
}

TEST(PipelineGenerators, RefuseSizesTheyAreNotDefinedFor) {
  struct Case {
    const char* name;
    int ranks, stages, microbatches;
    const char* why;
  };
  for (const Case& c : {Case{"GPipe", 2, 4, 2, "one stage per rank"},
                        {"GPipe", 4, 2, 2, "more ranks than stages"},
                        {"GPipe", 0, 2, 2, "requires at least one rank"},
                        {"GPipe", 2, 2, 0, "requires at least one micro-batch"},
                        {"LoopedBFS", 2, 5, 2, "cannot be divided evenly among the ranks"},
                        {"1F1B", 4, 4, 3, "at least as many micro-batches as ranks"},
                        {"ZBV", 2, 6, 4, "two stages per rank"},
                        {"DualPipeV", 2, 2, 4, "two stages per rank"},
                        {"DualPipeV", 2, 4, 3, "at least as many micro-batches as stages"},
                        {"Inference", 2, 4, 3, "one stage per rank"}}) {
    const ir::UserError error = error_of([&] { rows(c.name, c.ranks, c.stages, c.microbatches); });
    EXPECT_EQ(error.code(), 809) << c.name;
    EXPECT_THAT(error.what(), HasSubstr(c.why));
  }
  EXPECT_THAT(error_of([] { rows("LoopedBFS", 1 << 10, 1 << 20, 1 << 20); }).what(),
              HasSubstr("error BR0810"));
  // Few actions, but idle cells that grow with the square of the ranks: 10^10 of them.
  for (const char* name : {"GPipe", "LoopedBFS", "Interleaved1F1B", "ZB1P", "Inference"})
    EXPECT_EQ(error_of([&] { rows(name, 70000, 70000, 1); }).code(), 810) << name;
}

TEST(PipelineGenerators, AreFoundByNameAndAlias) {
  EXPECT_EQ(find_generator("zb1p").name, "InterleavedZeroBubble");
  EXPECT_EQ(find_generator("interleaved-1f1b").name, "Interleaved1F1B");
  EXPECT_EQ(find_generator("dual_pipe_v").name, "DualPipeV");
  EXPECT_THAT(error_of([] { find_generator("chimera"); }).what(), HasSubstr("error BR0808"));
}

}  // namespace
}  // namespace braid::pipeline
