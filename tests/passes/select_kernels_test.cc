#include "passes/select_kernels.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "ir/parser.h"
#include "ir/printer.h"
#include "passes/runner.h"

namespace braid::passes {
namespace {

using ::testing::HasSubstr;

// Returns an all-reduce of n f32 over four ranks; `how` follows it.
std::string reduction(const std::string& sizes, const std::string& how = "", const std::string& op = "sum",
                      const std::string& dim = "", const std::string& place = " comm(symmetric, @g)",
                      const std::string& group = "0, 1, 2, 3") {
  return fmt::format(R"(graph main
{3}ranks 4
group @g = [{5}]

input %x: f32[{0}]

%c: f32[{0}]{4} = pointwise {{
  %0 = load %x
  store %0
}}
%c.1 mutates %c = all_reduce {2} @g (%c){1} as ar
%c.2 mutates %c.1 = wait ar
release ar
%y: f32[{0}] = pointwise {{
  %0 = load %c.2
  store %0
}}

output %y
)",
                     sizes, how, op, dim, place, group);
}

PassContext on(const std::string& machine, std::optional<CommEngine> engine = {}) {
  PassContext context;
  context.costs = analysis::cost_model_for(machine);
  context.engine = engine;
  return context;
}

KernelChoice choice(const std::string& text, const PassContext& context, const SelectKernels& pass = {}) {
  const ir::Schedule schedule = ir::parse_schedule(text, "test");
  return pass.choose(schedule, context).at(0);
}

std::string selected(const std::string& text, PassContext context, SelectKernels pass = {}) {
  ir::Schedule schedule = ir::parse_schedule(text, "test");
  const std::vector<Pass> list = {std::move(pass)};
  run_passes(schedule, list, {.check_unchanged = true, .context = &context});
  return ir::print(schedule);
}

TEST(SelectKernels, SmallPayloadsGoOneShotAndLargeOnesTwoShot) {
  EXPECT_EQ(selected(reduction("64"), on("cpu")), reduction("64", " algorithm one_shot"));
  EXPECT_EQ(selected(reduction("1048576"), on("cpu")), reduction("1048576", " algorithm two_shot"));
}

// runtime/comm/shm_channel.cc: from 32 KiB on with two ranks, from 16 KiB on with more.
TEST(SelectKernels, OnTheCpuTheModelChangesOverWhereTheEngineWasMeasuredTo) {
  const auto kernel = [](const char* floats, const char* group) {
    return choice(reduction(floats, "", "sum", "", " comm(symmetric, @g)", group), on("cpu")).kernel;
  };
  EXPECT_EQ(kernel("7168", "0, 1"), "one_shot");        // 28 KiB
  EXPECT_EQ(kernel("9216", "0, 1"), "two_shot");        // 36 KiB
  EXPECT_EQ(kernel("3072", "0, 1, 2, 3"), "one_shot");  // 12 KiB
  EXPECT_EQ(kernel("4096", "0, 1, 2, 3"), "two_shot");
}

TEST(SelectKernels, TheReasonNamesTheRivalAndAllCandidatesHaveTheirPrice) {
  const KernelChoice c = choice(reduction("64"), on("cpu"));
  EXPECT_EQ(c.reason, KernelReason::cheapest);
  EXPECT_THAT(reason_text(c), HasSubstr("two_shot would take"));
  ASSERT_EQ(c.candidates.size(), 2u);
  EXPECT_EQ(c.candidates[0].kernel, "one_shot");
  EXPECT_TRUE(c.candidates[0].executable);
  EXPECT_LT(c.candidates[0].us, c.candidates[1].us);
  EXPECT_EQ(c.us, c.candidates[0].us);
  EXPECT_EQ(c.max_bytes, 256);
}

TEST(SelectKernels, BoundedSizesAreDecidedWhereBothEndsAgree) {
  EXPECT_EQ(selected(reduction("n", "", "sum", "dim n in [1, 64]\n"), on("cpu")),
            reduction("n", " algorithm one_shot", "sum", "dim n in [1, 64]\n"));
}

TEST(SelectKernels, BoundedSizesWhoseEndsDifferAreLeftToTheEngine) {
  const std::string text = reduction("n", "", "sum", "dim n in [1, 1048576]\n");
  EXPECT_EQ(selected(text, on("cpu")), text);
  const KernelChoice c = choice(text, on("cpu"));
  EXPECT_EQ(c.reason, KernelReason::size_dependent);
  EXPECT_EQ(c.detail, "one_shot at 4 bytes, two_shot at 4194304");
}

TEST(SelectKernels, WhatTheProgramAsksForStays) {
  for (const char* how : {" algorithm two_shot", " algorithm automatic", " algorithm library"}) {
    const std::string text = reduction("64", how);
    EXPECT_EQ(selected(text, on("cpu")), text);
    EXPECT_EQ(choice(text, on("cpu")).reason, KernelReason::program);
  }
}

// The library takes the best of its algorithms by itself: kernels of our own are never cheaper than that.
TEST(SelectKernels, NcclsOwnChoiceStandsWhereTheModelPrefersNothingToIt) {
  const std::string text = reduction("64");
  EXPECT_EQ(selected(text, on("h100")), text);
  const KernelChoice c = choice(text, on("h100"));
  EXPECT_EQ(c.reason, KernelReason::equal);
  ASSERT_EQ(c.candidates.size(), 4u);
  for (const passes::KernelCandidate& k : c.candidates)
    EXPECT_EQ(k.executable, k.kernel != "ring") << k.kernel;
}

TEST(SelectKernels, WhatTheModelHasNoPriceForIsTheLibrarys) {
  const KernelChoice c = choice(reduction("64", "", "max"), on("h100"));
  EXPECT_EQ(c.reason, KernelReason::only_one);
  EXPECT_EQ(c.detail, "library is the only one with a price");
}

TEST(SelectKernels, AMachineOfAnotherEngineDecidesNothing) {
  const std::string text = reduction("64");
  EXPECT_EQ(selected(text, on("h100", CommEngine::shared_memory)), text);
  EXPECT_EQ(choice(text, on("h100", CommEngine::shared_memory)).reason, KernelReason::foreign_costs);
}

TEST(SelectKernels, OperandsThatAreStagedAreLeftToTheEngine) {
  const std::string text = reduction("64", "", "sum", "", "");
  EXPECT_EQ(selected(text, on("cpu")), text);
  EXPECT_EQ(choice(text, on("cpu")).reason, KernelReason::outside);
}

TEST(SelectKernels, APriceByHandDecidesNothing) {
  const std::string text = reduction("64", " cost(ns 1000)");
  EXPECT_EQ(choice(text, on("cpu")).reason, KernelReason::fixed_cost);
  EXPECT_EQ(choice(text, on("cpu")).us, 1);
}

TEST(SelectKernels, ALinkPricesAllKernelsAlike) {
  PassContext context;
  context.costs = std::make_shared<const analysis::CostModel>(
      analysis::with_paced_link(analysis::load_machine("cpu"), 10, 1));
  EXPECT_EQ(choice(reduction("64"), context).reason, KernelReason::equal);
}

TEST(SelectKernels, InductorsRuleIsSumsUpToAThreshold) {
  const SelectKernels rule{.policy = "inductor"};
  EXPECT_EQ(choice(reduction("32768"), on("cpu"), rule).kernel, "one_shot");  // 128 KiB
  EXPECT_EQ(choice(reduction("32769"), on("cpu"), rule).kernel, "");
  EXPECT_EQ(choice(reduction("64", "", "max"), on("cpu"), rule).kernel, "");
  EXPECT_EQ(choice(reduction("64", "", "max"), on("cpu"), rule).detail, "max is not a sum");
  EXPECT_EQ(choice(reduction("n", "", "sum", "dim n in [1, 32769]\n"), on("cpu"), rule).reason,
            KernelReason::size_dependent);
}

TEST(SelectKernels, InductorsRuleOnNccl) {
  const SelectKernels rule{.policy = "inductor"};
  EXPECT_EQ(choice(reduction("64"), on("h100"), rule).kernel, "one_shot");
  EXPECT_EQ(choice(reduction("32769"), on("h100"), rule).kernel, "library");
  // An operand that no peer can read.
  const KernelChoice outside = choice(reduction("64", "", "sum", "", ""), on("h100"), rule);
  EXPECT_EQ(outside.kernel, "");
  EXPECT_EQ(outside.reason, KernelReason::outside);
}

TEST(SelectKernels, PolicyEngineLeavesAllToTheEngine) {
  EXPECT_EQ(choice(reduction("64"), on("cpu"), {.policy = "engine"}).reason, KernelReason::left);
}

TEST(SelectKernels, WhatIsLongerThanTheLimitKeepsItsWaitAndRelease) {
  EXPECT_EQ(selected(reduction("1048576"), on("cpu"), {.blocking_below_us = 5}),
            reduction("1048576", " algorithm two_shot"));
}

}  // namespace
}  // namespace braid::passes
