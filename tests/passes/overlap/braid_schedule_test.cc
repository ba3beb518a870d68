#include "passes/overlap/braid_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "analysis/bounds.h"
#include "analysis/memory_model.h"
#include "analysis/problem.h"
#include "analysis/simulator.h"
#include "passes/overlap/order_limits.h"
#include "tests/passes/text_pass.h"
#include "tests/support/random.h"
#include "tests/support/random_graph.h"
#include "tests/support/user_error.h"

namespace braid::test {
namespace {

using namespace passes;
using namespace analysis;

// The nodes of a schedule by name, in order.
std::vector<std::string> names(const ir::Schedule& schedule) {
  std::vector<std::string> out;
  for (int n = 0; n < static_cast<int>(schedule.nodes.size()); ++n) out.push_back(ir::name_of(schedule, n));
  return out;
}

std::vector<std::string> scheduled(std::string_view text, std::string_view passes = "braid_schedule") {
  ir::Schedule schedule = ir::parse_schedule(text, "test");
  run_passes(schedule, parse_pass_list(passes), {.check_unchanged = true});
  return names(schedule);
}

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

TEST(BraidSchedule, StartsAreJustEarlyEnough) {
  expect_passes("braid_schedule", kTwoLayers, R"(graph main
ranks 2
group @all = [0, 1]

input %x: f32[16]
input %s0: f32[8]
input %s1: f32[8]

%w0: f32[16] comm(symmetric, @all) = all_gather @all (%s0) as ag0 cost(ns 1000)
%w0.1 mutates %w0 = wait ag0
release ag0
%w1: f32[16] comm(symmetric, @all) = all_gather @all (%s1) as ag1 cost(ns 1000)
%a: f32[16] = pointwise cost(ns 2000) {
  %0 = load %x
  %1 = load %w0.1
  %2 = mul %0, %1
  store %2
}
%w1.1 mutates %w1 = wait ag1
release ag1
%b: f32[16] = pointwise cost(ns 2000) {
  %0 = load %a
  %1 = load %w1.1
  %2 = mul %0, %1
  store %2
}

output %b
)");
}

TEST(BraidSchedule, MemoryGrowthOfNothingKeepsTheSecondGatherBack) {
  expect_unchanged("braid_schedule{memory_growth=0}", kTwoLayers);
}

TEST(BraidSchedule, TheCapOfTheRunHoldsToo) {
  ir::Schedule schedule = ir::parse_schedule(kTwoLayers, "test");
  PassContext context;
  context.memory_cap = MemoryModel(schedule).planned_bytes(identity_order(analysis::nodes_of(schedule)));
  run_passes(schedule, parse_pass_list("braid_schedule"), {.context = &context});
  EXPECT_EQ(ir::print(schedule), kTwoLayers);
}

TEST(BraidSchedule, ACapThatCannotBeKeptNamesStepAndBuffers) {
  ir::Schedule schedule = ir::parse_schedule(kTwoLayers, "test");
  PassContext context;
  context.memory_cap = 64;
  const std::string error =
      error_of([&] { run_passes(schedule, parse_pass_list("braid_schedule"), {.context = &context}); });
  EXPECT_THAT(error, testing::HasSubstr("BR0570"));
  EXPECT_THAT(error, testing::HasSubstr("'w0'"));
}

TEST(BraidSchedule, WithoutCollectivesNothingMoves) {
  expect_unchanged("braid_schedule", R"(graph main

input %x: f32[16]

%a: f32[16] = pointwise cost(ns 10) {
  %0 = load %x
  %1 = exp %0
  store %1
}
%b: f32[16] = pointwise cost(ns 5000) {
  %0 = load %x
  %1 = neg %0
  store %1
}
%c: f32[16] = pointwise {
  %0 = load %a
  %1 = load %b
  %2 = add %0, %1
  store %2
}

output %c
)");
}

// The weight gradient hides the all-reduce of the activation gradient; the clone that feeds the all-reduce
// comes first.
TEST(BraidSchedule, IndependentWorkGoesBesideTheCollective) {
  const std::vector<std::string> order = scheduled(R"(graph main
ranks 2
group @tp = [0, 1]

input %g: f32[64]

%wgrad: f32[64] = pointwise cost(ns 3000) {
  %0 = load %g
  %1 = exp %0
  store %1
}
%dgrad: f32[64] comm(symmetric, @tp) = pointwise cost(ns 1000) {
  %0 = load %g
  %1 = neg %0
  store %1
}
%dgrad.1 mutates %dgrad = all_reduce sum @tp (%dgrad) as ar cost(ns 2500)
%dgrad.2 mutates %dgrad.1 = wait ar
release ar
%y: f32[64] = pointwise cost(ns 1000) {
  %0 = load %dgrad.2
  %1 = exp %0
  store %1
}

output %wgrad
output %y
)");
  EXPECT_EQ(order, (std::vector<std::string>{"dgrad", "ar", "wgrad", "dgrad.2", "ar.release", "y"}));
}

// Two small gradients and nothing beside them: their latencies are all there is.
constexpr std::string_view kSmallGradients = R"(graph main
ranks 8
group @dp = [0, 1, 2, 3, 4, 5, 6, 7]

input %x: f32[16]

%a: f32[16] comm(symmetric, @dp) = pointwise cost(ns 100) {
  %0 = load %x
  %1 = exp %0
  store %1
}
%b: f32[16] comm(symmetric, @dp) = pointwise cost(ns 100) {
  %0 = load %x
  %1 = neg %0
  store %1
}
%a.1 mutates %a = all_reduce sum @dp (%a) as ar_a
%a.2 mutates %a.1 = wait ar_a
release ar_a
%b.1 mutates %b = all_reduce sum @dp (%b) as ar_b
%b.2 mutates %b.1 = wait ar_b
release ar_b
%y: f32[16] = pointwise cost(ns 100) {
  %0 = load %a.2
  %1 = load %b.2
  %2 = add %0, %1
  store %2
}

output %y
)";

TEST(BraidSchedule, MergesWhereLatencyIsAllThereIs) {
  EXPECT_EQ(scheduled(kSmallGradients),
            (std::vector<std::string>{"a", "b", "ar_a", "a.2", "ar_a.release", "y"}));
}

TEST(BraidSchedule, MergesNothingIfAskedNotTo) {
  EXPECT_THAT(scheduled(kSmallGradients, "braid_schedule{merge=false}"), testing::Contains("ar_b"));
}

// Merged, the first gradient would wait for the second; alone, it is hidden.
TEST(BraidSchedule, LeavesCollectivesAloneThatAreHidden) {
  std::string text(kSmallGradients);
  text.replace(text.find("%b: f32[16] comm(symmetric, @dp) = pointwise cost(ns 100)"),
               std::string("%b: f32[16] comm(symmetric, @dp) = pointwise cost(ns 100)").size(),
               "%b: f32[16] comm(symmetric, @dp) = pointwise cost(ns 100000)");
  text.insert(text.find("%y: f32[16]"), R"(%z: f32[16] = pointwise cost(ns 100000) {
  %0 = load %a.2
  %1 = exp %0
  store %1
}
)");
  text.replace(text.find("output %y"), 9, "output %y\noutput %z");
  EXPECT_THAT(scheduled(text), testing::AllOf(testing::Contains("ar_a"), testing::Contains("ar_b")));
}

TEST(BraidSchedule, ReportsWhatItGainedAndWhatIsLeft) {
  ir::Schedule schedule = ir::parse_schedule(kTwoLayers, "test");
  PassContext context;
  run_passes(schedule, parse_pass_list("braid_schedule"), {.context = &context});
  ASSERT_EQ(context.reports.size(), 1u);
  OverlapReport report = context.reports[0];
  explain(report, schedule, *context.costs);
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

}  // namespace
}  // namespace braid::test
