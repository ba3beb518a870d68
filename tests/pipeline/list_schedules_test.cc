#include "pipeline/list_schedules.h"

#include <gtest/gtest.h>

#include "pipeline/lower_bounds.h"
#include "tests/pipeline/random_search_problem.h"

namespace braid::pipeline {
namespace {

TEST(ListSchedules, KeepTheModelAndTheCaps) {
  int found = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomProblemOptions options;
    options.split_backward = seed % 5 != 0;
    std::vector<std::int32_t> placement;
    if (seed % 3 == 0) placement = {0, 1, 2, 2, 1, 0};
    const SearchProblem p = random_search_problem(seed, options, placement);
    const SearchInstance instance(p);
    const std::optional<ListSchedule> best = best_list_schedule(instance);
    if (!best) continue;  // caps of ranks with two stages can be too tight for any rule
    ++found;
    const Evaluation e = evaluate(p, best->orders);
    ASSERT_EQ(e.status, Evaluation::Status::ok);
    EXPECT_EQ(e.makespan.ps, best->makespan);
    EXPECT_GE(best->makespan, LowerBounds(instance).root().best().ps);
  }
  EXPECT_GT(found, 80);
}

TEST(ListSchedules, OneStagePerRankNeverRunsIntoADeadEnd) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomProblemOptions options;
    options.cap_most = 1.5;
    EXPECT_TRUE(best_list_schedule(SearchInstance(random_search_problem(seed, options))).has_value());
  }
}

// 2104.04473: with equal costs, F : B = 1 : 2 and no delays 1F1B takes (M + P - 1)(f + b).
TEST(ListSchedules, TheNarrowWindowIsOneForwardOneBackward) {
  for (int ranks = 2; ranks <= 8; ++ranks) {
    SearchProblem p;
    p.ranks = ranks;
    p.microbatches = 2 * ranks;
    p.split_backward = false;
    for (int s = 0; s < ranks; ++s) p.rank_of_stage.push_back(s);
    p.stages.assign(static_cast<std::size_t>(ranks), {.forward = {1}, .backward_input = {2}});
    p.forward_delay.assign(static_cast<std::size_t>(ranks - 1), {});
    p.backward_delay = p.forward_delay;
    const auto found = list_schedule(SearchInstance(p), {});
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->makespan, 3 * (p.microbatches + ranks - 1));
  }
}

}  // namespace
}  // namespace braid::pipeline
