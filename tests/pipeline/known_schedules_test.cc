#include "pipeline/known_schedules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/error.h"
#include "tests/pipeline/random_search_problem.h"

namespace braid::pipeline {
namespace {

using testing::ElementsAre;

std::vector<std::string> names(const std::vector<NamedSchedule>& known) {
  std::vector<std::string> out;
  for (const NamedSchedule& k : known) out.push_back(k.name);
  return out;
}

SearchProblem problem(std::uint64_t seed, int microbatches, const std::vector<std::int32_t>& placement) {
  RandomProblemOptions options;
  options.microbatches_least = options.microbatches_most = microbatches;
  return random_search_problem(seed, options, placement);
}

TEST(KnownSchedules, AreThoseOfThePlacementAndTheSizes) {
  EXPECT_THAT(names(known_schedules(problem(1, 4, {0, 1, 2, 3}))),
              ElementsAre("GPipe", "1F1B", "Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble"));
  EXPECT_THAT(names(known_schedules(problem(1, 4, {0, 1, 0, 1}))),
              ElementsAre("Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble"));
  EXPECT_THAT(names(known_schedules(problem(1, 8, {0, 1, 1, 0}))), ElementsAre("ZBVZeroBubble", "DualPipeV"));
  EXPECT_THAT(names(known_schedules(problem(1, 8, {0, 0, 1}))), ElementsAre());
  EXPECT_THAT(names(known_schedules(problem(1, 0, {0, 1}))), ElementsAre());
}

TEST(KnownSchedules, AProblemThatIsTooLargeIsRefusedBeforeAnyIsMade) {
  SearchProblem p;
  p.ranks = 70000;
  p.microbatches = 1;
  for (int s = 0; s < p.ranks; ++s) p.rank_of_stage.push_back(s);
  p.stages.resize(70000);
  p.forward_delay.resize(69999);
  p.backward_delay.resize(69999);
  EXPECT_THAT([&] { known_schedules(p); },
              testing::ThrowsMessage<ir::UserError>(testing::HasSubstr("BR0880")));
}

TEST(KnownSchedules, TheSearchIsNeverLongerThanAnyThatFits) {
  const std::vector<std::vector<std::int32_t>> placements{{0, 1}, {0, 1, 2, 3}, {0, 1, 0, 1}, {0, 1, 1, 0}};
  int fit = 0;
  for (std::uint64_t seed = 1; seed <= 80; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    SearchProblem p = problem(seed, 2 + static_cast<int>(seed % 7), placements[seed % 4]);
    for (std::int64_t& cap : p.byte_cap) cap *= 2;  // two stages of a rank need room for both
    const SearchResult r = search(p, known_schedules(p), {.node_budget = 2000});
    for (const KnownOutcome& known : r.known) {
      EXPECT_NE(known.status, KnownOutcome::Status::unsuited) << known.name;
      EXPECT_NE(known.status, KnownOutcome::Status::stuck) << known.name;
      if (known.status != KnownOutcome::Status::fits) continue;
      ++fit;
      EXPECT_LE(r.makespan, known.makespan) << known.name;
    }
  }
  EXPECT_GT(fit, 100);
}

// 2401.10241: ZB-H1's makespan is (P-1)(f+I-W) above the work, in 1F1B's memory. At equal costs nothing is
// shorter.
TEST(KnownSchedules, NothingIsShorterThanZeroBubbleAtEqualCosts) {
  for (int ranks = 2; ranks <= 4; ++ranks) {
    SearchProblem p;
    p.ranks = ranks;
    p.microbatches = 2 * ranks;
    for (int s = 0; s < ranks; ++s) p.rank_of_stage.push_back(s);
    p.stages.assign(static_cast<std::size_t>(ranks), {.forward = {1},
                                                      .backward_input = {1},
                                                      .backward_weight = {1},
                                                      .activation_bytes = 1,
                                                      .weight_bytes = 1});
    p.forward_delay.assign(static_cast<std::size_t>(ranks - 1), {});
    p.backward_delay = p.forward_delay;
    p.byte_cap.assign(static_cast<std::size_t>(ranks), ranks);
    const SearchResult r = search(p, known_schedules(p));
    EXPECT_EQ(r.makespan.ps, 3 * p.microbatches + ranks - 1);
    EXPECT_TRUE(r.proven_optimal);
    EXPECT_EQ(r.known[static_cast<std::size_t>(r.best_known)].name, "InterleavedZeroBubble");
  }
}

}  // namespace
}  // namespace braid::pipeline
