#include "pipeline/search.h"

#include <gtest/gtest.h>

#include <map>

#include "ir/error.h"
#include "pipeline/timed_transfers.h"
#include "tests/pipeline/random_search_problem.h"

namespace braid::pipeline {
namespace {

int search_error(const SearchProblem& p, const SearchOptions& options = {}) {
  try {
    search(p, {}, options);
  } catch (const ir::UserError& e) {
    return e.code();
  }
  return 0;
}

// All F, then all B, in micro-batch order.
NamedSchedule gpipe(const SearchProblem& p) {
  NamedSchedule out{"gpipe", {p.rank_of_stage, PerRank<Row>(first_ids<int>(p.ranks)), p.microbatches}};
  for (const ActionKind kind : {ActionKind::forward, ActionKind::full_backward})
    for (std::int32_t s = 0; s < p.stage_count(); ++s)
      for (std::int32_t k = 0; k < p.microbatches; ++k)
        out.schedule.rows[p.rank_of_stage[s]].push_back({kind, s, k});
  return out;
}

// One after the other, the order that any cap admits where each rank owns one stage.
NamedSchedule one_by_one(const SearchProblem& p) {
  NamedSchedule out{"one by one", {p.rank_of_stage, PerRank<Row>(first_ids<int>(p.ranks)), p.microbatches}};
  for (std::int32_t s = 0; s < p.stage_count(); ++s)
    for (std::int32_t k = 0; k < p.microbatches; ++k)
      for (const ActionKind kind : {ActionKind::forward, ActionKind::full_backward})
        out.schedule.rows[p.rank_of_stage[s]].push_back({kind, s, k});
  return out;
}

TEST(Search, IsNeverLongerThanAKnownScheduleThatFitsAndNeverBelowItsBound) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomProblemOptions options;
    options.split_backward = seed % 3 != 0;
    const SearchProblem p = random_search_problem(seed, options);
    const std::vector<NamedSchedule> known{gpipe(p), one_by_one(p)};
    for (const std::int64_t budget : {1, 500, 0}) {
      const SearchResult r = search(p, known, {.node_budget = budget});
      ASSERT_EQ(r.known[1].status, KnownOutcome::Status::fits);
      ASSERT_GE(r.best_known, 0);
      EXPECT_LE(r.makespan, r.known[static_cast<std::size_t>(r.best_known)].makespan);
      EXPECT_GE(r.makespan, r.lower_bound);
      EXPECT_GE(r.lower_bound, r.root_bounds.best());
      const Evaluation e = evaluate(p, r.orders);
      ASSERT_EQ(e.status, Evaluation::Status::ok);
      EXPECT_EQ(e.makespan, r.makespan);
      EXPECT_LE(r.nodes, r.node_budget);
      EXPECT_TRUE(budget != 0 || r.proven_optimal);
    }
  }
}

TEST(Search, SchedulesForAnotherProblemAreNamedAndPassedOver) {
  RandomProblemOptions options;
  options.ranks_least = options.ranks_most = 3;
  options.microbatches_least = options.microbatches_most = 4;
  const SearchProblem p = random_search_problem(7, options);
  SearchProblem longer = p, elsewhere = p;
  longer.microbatches = 5;
  elsewhere.rank_of_stage = {1, 0, 2};
  NamedSchedule missing = gpipe(p);
  missing.schedule.rows[1].pop_back();
  const std::vector<NamedSchedule> known{gpipe(longer), gpipe(elsewhere), missing};
  const SearchResult r = search(p, known);
  for (const KnownOutcome& outcome : r.known) EXPECT_EQ(outcome.status, KnownOutcome::Status::unsuited);
  EXPECT_EQ(r.best_known, -1);
}

TEST(Search, KeepsTheCapWhereAKnownScheduleDoesNot) {
  RandomProblemOptions options;
  options.ranks_least = options.ranks_most = 2;
  options.microbatches_least = options.microbatches_most = 4;
  SearchProblem p = random_search_problem(11, options);
  p.byte_cap = {p.stages[0].activation_bytes * 2, p.stages[1].activation_bytes * 2};
  const std::vector<NamedSchedule> known{gpipe(p)};
  const SearchResult r = search(p, known);
  EXPECT_EQ(r.known[0].status, KnownOutcome::Status::over_cap);
  EXPECT_TRUE(r.proven_optimal);
}

TEST(Search, NoStagesNoMicrobatchesAndOneRankAreFine) {
  EXPECT_EQ(search(SearchProblem{}, {}).makespan, analysis::Time{});
  SearchProblem p = random_search_problem(1, {}, {0});
  const SearchResult r = search(p, {});
  EXPECT_TRUE(r.proven_optimal);
  p.microbatches = 0;
  EXPECT_TRUE(search(p, {}).proven_optimal);
}

TEST(Search, CapsThatAdmitNoScheduleAreAnError) {
  // Rank 0 must hold a micro-batch in both of its stages.
  SearchProblem p = random_search_problem(3, {}, {0, 1, 0});
  p.microbatches = 2;
  const std::int64_t both = p.stages[0].activation_bytes + p.stages[2].activation_bytes;
  p.byte_cap = {both, kNoByteCap};
  EXPECT_EQ(search_error(p), 0);
  p.byte_cap = {both - 1, kNoByteCap};
  EXPECT_EQ(search_error(p), 882);
}

TEST(Search, ABudgetThatEndsBeforeTheFirstScheduleIsAnError) {
  // Caps that admit nothing, and a proof of it that needs more than one state.
  RandomProblemOptions options;
  options.cap_most = 2;
  const SearchProblem p = random_search_problem(29, options, {0, 1, 0, 1});
  EXPECT_EQ(search_error(p, {.node_budget = 1}), 883);
  EXPECT_EQ(search_error(p), 882);
}

TEST(Search, ManyRanksAndMicrobatchesComeToAnEndWithinTheBudget) {
  RandomProblemOptions options;
  options.ranks_least = options.ranks_most = 12;
  options.microbatches_least = options.microbatches_most = 24;
  const SearchProblem p = random_search_problem(2, options);
  const std::int64_t budget = 4 * p.actions();
  const SearchResult r = search(p, {}, {.node_budget = budget});
  EXPECT_LE(r.nodes, budget);
  EXPECT_LT(r.gap(), 0.3);
}

// Under rule 2 a message starts when both ends are posted; where RECVs stand must not postpone it.
TEST(TimedTransfers, EveryReceiveStandsBeforeWhatItsRankIsInTheMidstOf) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const SearchProblem p =
        seed % 2 == 0 ? random_search_problem(seed, {}, {0, 1, 1, 0}) : random_search_problem(seed, {});
    SearchProblem free = p;
    free.byte_cap.clear();
    free.microbatches = std::min(free.microbatches, 4);
    const SearchResult r = search(free, {});
    const PipelineSchedule lowered = add_timed_send_recv(free, r.orders);
    MoveTimes timeline;
    evaluate(free, r.orders, &timeline);
    std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> sent[2];
    for (int pass = 0; pass < 2; ++pass)
      for (std::size_t rank = 0; rank < lowered.rows.size(); ++rank) {
        std::size_t computed = 0;
        for (const Action& a : lowered.rows[rank]) {
          const std::int64_t end = computed == 0 ? 0 : timeline.ends[rank][computed - 1].ps;
          if (is_compute(a.kind)) ++computed;
          if (pass == 0 && is_send(a.kind))
            sent[a.kind == ActionKind::send_forward ? 0 : 1][{a.stage, a.microbatch}] = end;
          if (pass == 0 || !is_recv(a.kind)) continue;
          const Action send = counterpart(a);
          const auto& times = sent[send.kind == ActionKind::send_forward ? 0 : 1];
          const auto found = times.find({send.stage, send.microbatch});
          ASSERT_NE(found, times.end());
          EXPECT_LE(end, found->second);
        }
        EXPECT_EQ(computed, r.orders[rank].size());
      }
  }
}

}  // namespace
}  // namespace braid::pipeline
