#include "pipeline/widening_beam.h"

#include <gtest/gtest.h>

#include <limits>

#include "pipeline/lower_bounds.h"
#include "tests/pipeline/random_search_problem.h"
#include "tests/pipeline/search_oracle.h"

namespace braid::pipeline {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

struct Family {
  const char* name;
  std::vector<std::int32_t> placement;
  int microbatches;
  bool split_backward;
  int cases;
};

// gtest names the case by it.
void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }

class AgainstEveryOrder : public testing::TestWithParam<Family> {};

SearchProblem tiny_problem(const Family& family, int i, std::uint64_t seed) {
  RandomProblemOptions options;
  options.microbatches_least = options.microbatches_most = family.microbatches;
  options.split_backward = family.split_backward;
  options.spread = i % 3 == 0 ? 1 : i % 3 == 1 ? 4 : 20;
  options.cap_most = 2 + i % 4;
  options.latency = (i % 5) * 0.5;
  SearchProblem p = random_search_problem(seed, options, family.placement);
  if (i % 2 == 0) return p;
  // Small numbers: zero times and many ties.
  for (SearchStage& stage : p.stages)
    for (analysis::Time* t : {&stage.forward, &stage.backward_input, &stage.backward_weight})
      t->ps /= 25'000'000;
  for (auto* delays : {&p.forward_delay, &p.backward_delay})
    for (analysis::Time& t : *delays) t.ps /= 25'000'000;
  return p;
}

TEST_P(AgainstEveryOrder, FindsTheShortestMakespanAndProvesIt) {
  for (int i = 0; i < GetParam().cases; ++i) {
    const std::uint64_t seed = 1000 + static_cast<std::uint64_t>(i);
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const SearchProblem p = tiny_problem(GetParam(), i, seed);
    const std::int64_t best = shortest_makespan(p);
    const SearchInstance instance(p);
    BeamOptions options;
    options.node_budget = 1'000'000;
    options.first_width = i % 7 == 0 ? 1 : 16;
    const BeamResult result = widening_beam(instance, kNever, options);
    ASSERT_EQ(result.makespan, best);
    ASSERT_TRUE(result.complete);
    ASSERT_EQ(result.lower_bound, best);
    ASSERT_EQ(result.improved, best != kNever);
    if (best == kNever) continue;  // no order fits the caps
    ASSERT_LE(LowerBounds(instance).root().best().ps, best);
    const Evaluation evaluation = evaluate(p, result.orders);
    ASSERT_EQ(evaluation.status, Evaluation::Status::ok);
    ASSERT_EQ(evaluation.makespan.ps, best);
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, AgainstEveryOrder,
                         testing::Values(Family{"chain2_m3", {0, 1}, 3, true, 100},
                                         Family{"chain2_m4", {0, 1}, 4, true, 2},
                                         Family{"chain3_m2", {0, 1, 2}, 2, true, 100},
                                         Family{"chain3_m3", {0, 1, 2}, 3, true, 2},
                                         Family{"chain2_m6_merged", {0, 1}, 6, false, 30},
                                         Family{"chain3_m4_merged", {0, 1, 2}, 4, false, 50},
                                         Family{"chain4_m3_merged", {0, 1, 2, 3}, 3, false, 50},
                                         Family{"one_rank_two_stages", {0, 0}, 2, true, 50},
                                         Family{"one_rank_two_stages_merged", {0, 0}, 3, false, 100},
                                         Family{"wave_merged", {0, 1, 0}, 2, false, 100},
                                         Family{"v_m1", {0, 1, 1, 0}, 1, true, 100},
                                         Family{"v_m2_merged", {0, 1, 1, 0}, 2, false, 20}),
                         [](const auto& info) { return std::string(info.param.name); });

// Rule "micro-batches are executed in order, WLOG" of search_problem.h, against orders that do not keep it.
TEST(MicrobatchOrder, NothingIsGainedByAnyOther) {
  // Two stages, two micro-batches, F and B: every order of the four actions of each rank.
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomProblemOptions options;
    options.microbatches_least = options.microbatches_most = 2;
    options.split_backward = false;
    const SearchProblem p = random_search_problem(seed, options, {0, 1});
    std::int64_t best = kNever;
    std::vector<int> first{0, 1, 2, 3};  // kind * 2 + micro-batch
    do {
      std::vector<int> second{0, 1, 2, 3};
      do {
        const std::vector<int>* order[2] = {&first, &second};
        std::int64_t end[2][4], free[2] = {}, bytes[2] = {};
        bool done[2][4] = {}, fits = true;
        std::size_t next[2] = {};
        for (bool progress = true; progress;) {
          progress = false;
          for (std::size_t r = 0; r < 2; ++r) {
            if (next[r] == 4) continue;
            const int a = (*order[r])[next[r]];
            const SearchStage& stage = p.stages[r];
            std::int64_t start = free[r];
            if (a < 2 && r == 1) {
              if (!done[0][a]) continue;
              start = std::max(start, end[0][a] + p.forward_delay[0].ps);
            }
            if (a >= 2 && !done[r][a - 2]) continue;
            if (a >= 2 && r == 0) {
              if (!done[1][a]) continue;
              start = std::max(start, end[1][a] + p.backward_delay[0].ps);
            }
            bytes[r] += a < 2 ? stage.activation_bytes : -stage.activation_bytes;
            fits &= bytes[r] <= p.cap(static_cast<int>(r));
            end[r][a] = free[r] = start + (a < 2 ? stage.forward.ps : stage.backward_input.ps);
            done[r][a] = progress = true;
            ++next[r];
          }
        }
        if (fits && next[0] == 4 && next[1] == 4) best = std::min(best, std::max(free[0], free[1]));
      } while (std::next_permutation(second.begin(), second.end()));
    } while (std::next_permutation(first.begin(), first.end()));
    ASSERT_EQ(best, shortest_makespan(p));
  }
}

TEST(WideningBeam, ReportsABoundBelowTheMakespanWhenTheBudgetEnds) {
  RandomProblemOptions options;
  options.ranks_least = options.ranks_most = 4;
  options.microbatches_least = options.microbatches_most = 8;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const SearchProblem p = random_search_problem(seed, options);
    const SearchInstance instance(p);
    BeamOptions all, few;
    all.node_budget = 10'000'000;
    few.node_budget = 300;
    few.first_width = 1;
    const BeamResult best = widening_beam(instance, kNever, all);
    const BeamResult result = widening_beam(instance, kNever, few);
    ASSERT_TRUE(best.complete);
    EXPECT_LE(result.lower_bound, best.makespan);
    EXPECT_GE(result.makespan, best.makespan);
    EXPECT_LE(result.nodes, 300);
  }
}

TEST(WideningBeam, ImprovesOnlyOnWhatIsShorterThanTheIncumbent) {
  const SearchProblem p = random_search_problem(3, {}, {0, 1, 2});
  const SearchInstance instance(p);
  BeamOptions options;
  options.node_budget = 1'000'000;
  const std::int64_t best = widening_beam(instance, kNever, options).makespan;
  const BeamResult again = widening_beam(instance, best, options);
  EXPECT_FALSE(again.improved);
  EXPECT_TRUE(again.complete);
  EXPECT_EQ(again.makespan, best);
  EXPECT_TRUE(widening_beam(instance, best + 1, options).improved);
}

TEST(WideningBeam, IsDeterministic) {
  const SearchProblem p = random_search_problem(5, {});
  const SearchInstance instance(p);
  BeamOptions options;
  options.node_budget = 100'000;
  EXPECT_EQ(widening_beam(instance, kNever, options).orders, widening_beam(instance, kNever, options).orders);
}

}  // namespace
}  // namespace braid::pipeline
