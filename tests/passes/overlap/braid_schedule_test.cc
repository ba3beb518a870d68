#include "passes/overlap/braid_schedule.h"

#include <gtest/gtest.h>

#include <random>

#include "analysis/bounds.h"
#include "analysis/memory_model.h"
#include "analysis/problem.h"
#include "analysis/simulator.h"
#include "explain/order_limits.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "passes/overlap/trial_search.h"
#include "passes/runner.h"
#include "tests/support/random.h"
#include "tests/support/random_graph.h"

namespace braid::test {
namespace {

using namespace passes;
using namespace analysis;

Time makespan(const ir::Schedule& schedule) {
  const Problem p = make_problem(schedule, *PassContext().costs);
  return simulate_makespan(p, identity_order(p.nodes()));
}

constexpr std::string_view kTwoLayers = R"(graph main
ranks 2
group @all = [0, 1]

input %x: f32[16]
input %s0: f32[8]
input %s1: f32[8]

%w0: f32[16] comm(symmetric, @all) = all_gather @all (%s0) as ag0 cost(ns 1000)
%w0.1 mutates %w0 = wait ag0
release ag0
%a: f32[16] = pointwise cost(ns 2000) {
  %0 = load %x
  %1 = load %w0.1
  %2 = mul %0, %1
  store %2
}
%w1: f32[16] comm(symmetric, @all) = all_gather @all (%s1) as ag1 cost(ns 1000)
%w1.1 mutates %w1 = wait ag1
release ag1
%b: f32[16] = pointwise cost(ns 2000) {
  %0 = load %a
  %1 = load %w1.1
  %2 = mul %0, %1
  store %2
}

output %b
)";

TEST(BraidSchedule, ReportsWhatItGainedAndWhatIsLeft) {
  ir::Schedule schedule = ir::parse_schedule(kTwoLayers, "test");
  PassContext context;
  run_passes(schedule, parse_pass_list("braid_schedule"), {.context = &context});
  ASSERT_EQ(context.reports.size(), 1u);
  OverlapReport report = context.reports[0];
  explain::add_limits(report, schedule, *context.costs);
  EXPECT_EQ(report.makespan_before.ns(), 6000);
  EXPECT_LT(report.makespan_after.ns(), 5500);  // 5000 and what the machine charges for contention
  EXPECT_LE(report.bound, report.makespan_after);
  EXPECT_GT(report.bound.ns(), 5000);
  ASSERT_EQ(report.collectives.size(), 2u);
  EXPECT_EQ(report.collectives[0].final_exposed.ns(), 1000);
  EXPECT_EQ(report.collectives[0].limit.reason, LimitReason::boundary);
  EXPECT_EQ(report.collectives[1].limit.reason, LimitReason::cost);
  EXPECT_EQ(report.collectives[1].initial_exposed.ns(), 1000);
  EXPECT_EQ(report.collectives[1].final_exposed.ns(), 0);
  EXPECT_EQ(report.collectives[1].moves, 1);
}

// As the rest of the passes' random test does it, but with many nodes; and the schedule is no longer than it
// was.
TEST(BraidSchedule, RandomProgramsAreLegalAndNoLonger) {
  for (int i = 0; i < random_cases(60); ++i) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
    RandomProgram program = random_program(seed, 10 + i % 30);
    const Time before = makespan(program.schedule);
    ir::Schedule again = program.schedule;
    run_passes(program.schedule, parse_pass_list("braid_schedule{budget=50}"), {.check_unchanged = true});
    EXPECT_LE(makespan(program.schedule), before) << "seed " << seed;
    run_passes(again, parse_pass_list("braid_schedule{budget=50}"));
    EXPECT_EQ(ir::print(program.schedule), ir::print(again)) << "seed " << seed;
  }
}

// A schedule that is too long to be useful in every order is left as it is, with a bound that no order beats;
// all others are scheduled as usual.
TEST(BraidSchedule, LeavesWhatIsTooLongInEveryOrder) {
  int left = 0, kept = 0;
  for (int i = 0; i < random_cases(60); ++i) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomProgram program = random_program(seed, 10 + i % 30);
    ir::Schedule scheduled = program.schedule;
    run_passes(scheduled, parse_pass_list("braid_schedule{budget=50}"));
    const Time shortest = makespan(scheduled);
    for (const int percent : {50, 90, 100}) {
      PassContext context;
      context.useful = Time{shortest.ps / 100 * percent};
      if (percent == 100) context.useful = shortest;
      ir::Schedule limited = program.schedule;
      run_passes(limited, parse_pass_list("braid_schedule{budget=50}"), {.context = &context});
      EXPECT_TRUE(percent < 100 || !context.at_least);
      ++(context.at_least ? left : kept);
      if (context.at_least) {
        EXPECT_GT(*context.at_least, *context.useful);
        EXPECT_LE(*context.at_least, shortest);
      }
      EXPECT_EQ(ir::print(limited), ir::print(context.at_least ? program.schedule : scheduled));
    }
  }
  EXPECT_GT(left, 0);
  EXPECT_GT(kept, 0);
}

// A trial that no order makes short enough needs no search, and of others the search finds the same.
TEST(TrialSearch, SearchesUnlessEveryOrderIsTooLong) {
  int none = 0;
  for (int i = 0; i < random_cases(60); ++i) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomProgram program = random_program(seed, 10 + i % 30);
    const CostModel& costs = *PassContext().costs;
    const OrderSearchOptions options{.appends_per_node = 50, .quick = i % 2 == 0};
    const FoundOrder found = order_of(program.schedule, costs, options, true);
    for (const std::int64_t most : {found.makespan.ps / 2, found.makespan.ps - 1, found.makespan.ps}) {
      const std::optional<FoundOrder> within =
          order_within(program.schedule, costs, options, true, Time{most});
      EXPECT_TRUE(within || most < found.makespan.ps);
      none += within ? 0 : 1;
      if (within) {
        EXPECT_EQ(within->order, found.order);
      }
    }
  }
  EXPECT_GT(none, 0);
}

}  // namespace
}  // namespace braid::test
