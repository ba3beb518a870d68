// How blocked time is charged to collectives (simulator.h), on random problems.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "analysis/simulator.h"
#include "tests/support/random.h"
#include "tests/support/random_problem.h"

namespace braid::test {
namespace {

using namespace analysis;

Problem problem_of(std::uint64_t seed) {
  std::mt19937_64 random(seed * 31 + 7);
  RandomProblemOptions o;
  o.nodes = 5 + static_cast<int>(random() % 40);
  o.channels = 1 + static_cast<int>(random() % 4);
  o.fabrics = 1 + static_cast<int>(random() % 3);
  o.contention = random() % 2 == 0;
  o.edges = static_cast<double>(random() % 3) / o.nodes;
  o.max_time = random() % 2 == 0 ? 20000 : 7;
  return random_problem(seed, o);
}

// Returns the time that the stream stands still: in a wait, in a blocking collective, or after the last step.
Time blocked(const Problem& p, const Timeline& t) {
  Time sum, last;
  for (const StepId s : p.steps.ids()) {
    last = std::max(last, t.steps[s].end);
    if (p.steps[s].kind == Step::Kind::wait || p.steps[s].blocking) sum += t.steps[s].end - t.steps[s].begin;
  }
  return sum + (t.makespan - last);
}

TEST(Exposure, ChargesAddUpToTheTimeBlockedAndNoneExceedsItsTransfer) {
  const std::uint64_t first = first_seed();
  std::int64_t charged = 0, elsewhere = 0;
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(random_cases(2000)); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Problem p = problem_of(seed);
    const Timeline t = simulate(p, random_order(p, seed));
    Time sum;
    const auto roundings = static_cast<std::int64_t>(p.steps.size() + p.collectives.size());
    for (CollectiveId c : p.collectives.ids()) {
      const CollectiveTimes& times = t.collectives[c];
      EXPECT_GE(times.exposed.ps, 0);
      EXPECT_LE(times.exposed, times.end - times.begin);
      // While the stream is blocked, a fabric is shared in equal parts: what is charged is the work done.
      EXPECT_LE(times.exposed.ps, p.collectives[c].cost.time.ps + roundings);
      sum += times.exposed;
      charged += times.exposed.ps;
      elsewhere += (times.exposed - std::min(times.exposed, times.blocked)).ps;
    }
    EXPECT_EQ(sum, t.exposed);
    EXPECT_EQ(sum, blocked(p, t));
    EXPECT_EQ(t.makespan, simulate_makespan(p, random_order(p, seed)));
  }
  EXPECT_GT(charged, 0);
  EXPECT_GT(elsewhere, 0) << "no wait blocked for another collective than its own";
}

}  // namespace
}  // namespace braid::test
