#include "pipeline/search_problem.h"

#include <gtest/gtest.h>

#include "ir/error.h"
#include "pipeline/lower_bounds.h"
#include "tests/pipeline/random_search_problem.h"

namespace braid::pipeline {
namespace {

using analysis::Time;

SearchProblem two_ranks(int microbatches) {
  SearchProblem p;
  p.ranks = 2;
  p.microbatches = microbatches;
  p.rank_of_stage = {0, 1};
  p.stages.assign(2, {.forward = {2},
                      .backward_input = {3},
                      .backward_weight = {4},
                      .activation_bytes = 10,
                      .weight_bytes = 6});
  p.forward_delay = {{5}};
  p.backward_delay = {{7}};
  return p;
}

Orders orders(std::vector<std::vector<std::pair<int, int>>> rows) {
  Orders out;
  for (const auto& row : rows) {
    out.emplace_back();
    for (const auto& [stage, kind] : row) out.back().push_back({stage, kind});
  }
  return out;
}

int error_of(const SearchProblem& p) {
  try {
    check(p);
  } catch (const ir::UserError& e) {
    return e.code();
  }
  return 0;
}

TEST(SearchModel, DelaysPostponeAndRanksComputeOneAfterTheOther) {
  const auto e = evaluate(two_ranks(1), orders({{{0, 0}, {0, 1}, {0, 2}}, {{1, 0}, {1, 1}, {1, 2}}}));
  EXPECT_EQ(e.status, Evaluation::Status::ok);
  EXPECT_EQ(e.makespan, (Time{2 + 5 + 2 + 3 + 7 + 3 + 4}));
}

TEST(SearchModel, OrdersThatWaitForEachOtherAreStuck) {
  const auto e = evaluate(two_ranks(1), orders({{{0, 1}, {0, 0}, {0, 2}}, {{1, 0}, {1, 1}, {1, 2}}}));
  EXPECT_EQ(e.status, Evaluation::Status::stuck);
}

TEST(SearchModel, InputBackwardReleasesAllButWhatTheWeightsNeed) {
  SearchProblem p = two_ranks(2);
  const Orders late = orders(
      {{{0, 0}, {0, 1}, {0, 0}, {0, 2}, {0, 1}, {0, 2}}, {{1, 0}, {1, 1}, {1, 2}, {1, 0}, {1, 1}, {1, 2}}});
  p.byte_cap = {16, 10};  // 6 stay from I to W, 10 come
  EXPECT_EQ(evaluate(p, late).status, Evaluation::Status::ok);
  p.byte_cap = {15, 10};
  EXPECT_EQ(evaluate(p, late).status, Evaluation::Status::over_cap);
}

TEST(SearchModel, OrdersAndRowsAreTheSame) {
  const SearchProblem p = two_ranks(2);
  const Orders o = orders(
      {{{0, 0}, {0, 0}, {0, 1}, {0, 2}, {0, 1}, {0, 2}}, {{1, 0}, {1, 1}, {1, 0}, {1, 2}, {1, 1}, {1, 2}}});
  const PipelineSchedule schedule = to_schedule(p, o);
  EXPECT_EQ(schedule.rows[1][2], (Action{ActionKind::forward, 1, 1}));
  EXPECT_EQ(schedule.rows[0][5], (Action{ActionKind::backward_weight, 0, 1}));
  EXPECT_EQ(from_rows(p, schedule), o);
}

TEST(SearchModel, AFullBackwardIsReadAsBothHalves) {
  SearchProblem p = two_ranks(1);
  PipelineSchedule schedule;
  schedule.rank_of_stage = {0, 1};
  schedule.microbatches = 1;
  schedule.rows = {{{ActionKind::idle}, {ActionKind::forward, 0, 0}, {ActionKind::full_backward, 0, 0}}, {}};
  EXPECT_EQ(from_rows(p, schedule)[0], orders({{{0, 0}, {0, 1}, {0, 2}}})[0]);
  p.split_backward = false;
  EXPECT_EQ(from_rows(p, schedule)[0], orders({{{0, 0}, {0, 1}}})[0]);
}

TEST(SearchProblem, SizesThatDisagreeAreRefused) {
  EXPECT_EQ(error_of(two_ranks(3)), 0);
  SearchProblem p = two_ranks(3);
  p.forward_delay.clear();
  EXPECT_EQ(error_of(p), 880);
  p = two_ranks(3);
  p.rank_of_stage = {0, 2};
  EXPECT_EQ(error_of(p), 880);
  p = two_ranks(3);
  p.byte_cap = {100};
  EXPECT_EQ(error_of(p), 880);
  p = two_ranks(3);
  p.stages[1].forward.ps = -1;
  EXPECT_EQ(error_of(p), 880);
  p = two_ranks(3);
  p.stages[1].forward.ps = INT64_MAX / 2;
  EXPECT_EQ(error_of(p), 880);
  p = two_ranks(3);
  p.stages[0].weight_bytes = 11;
  EXPECT_EQ(error_of(p), 880);
  EXPECT_EQ(error_of(two_ranks(100000)), 880);
}

TEST(SearchProblem, ACapBelowOneMicrobatchIsRefused) {
  SearchProblem p = two_ranks(3);
  p.byte_cap = {10, 9};
  EXPECT_EQ(error_of(p), 881);
}

TEST(SearchProblem, NoStagesAndNoMicrobatchesAreFine) {
  EXPECT_EQ(error_of(SearchProblem{}), 0);
  EXPECT_EQ(error_of(two_ranks(0)), 0);
  EXPECT_EQ(evaluate(two_ranks(0), Orders(2)).makespan, Time{});
}

// With equal costs, no transfers and no cap only the start skew is left (ZB-H1, 2401.10241).
TEST(LowerBounds, TheRootBoundIsTheZeroBubbleMakespanAtEqualCosts) {
  for (int ranks = 2; ranks <= 6; ++ranks) {
    SearchProblem p;
    p.ranks = ranks;
    p.microbatches = 4 * ranks;
    for (int s = 0; s < ranks; ++s) p.rank_of_stage.push_back(s);
    p.stages.assign(static_cast<std::size_t>(ranks), {.forward = {1},
                                                      .backward_input = {1},
                                                      .backward_weight = {1},
                                                      .activation_bytes = 1,
                                                      .weight_bytes = 1});
    p.forward_delay.assign(static_cast<std::size_t>(ranks - 1), {});
    p.backward_delay = p.forward_delay;
    const SearchInstance instance(p);
    EXPECT_EQ(LowerBounds(instance).root().best().ps, 3 * p.microbatches + ranks - 1);
  }
}

// One activation at a time: every micro-batch makes its whole round trip alone.
TEST(LowerBounds, ACapOfOneActivationMakesEveryRoundTripCount) {
  SearchProblem p = two_ranks(4);
  p.byte_cap = {10, 10};
  const SearchInstance instance(p);
  // 2+5+2+3+7+3 per round trip, and W before the next F since it still holds 6 of 10 bytes
  EXPECT_EQ(LowerBounds(instance).root().best().ps, 4 * (22 + 4));
}

}  // namespace
}  // namespace braid::pipeline
