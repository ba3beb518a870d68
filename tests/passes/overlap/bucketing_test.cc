// bucket_collectives, bucket_saturated, bucket_preserving_overlap, and the merging beneath them.
#include "passes/overlap/bucketing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/measure.h"
#include "analysis/simulator.h"
#include "tests/passes/text_pass.h"
#include "tests/support/orders.h"
#include "tests/support/random.h"
#include "tests/support/random_graph.h"

namespace braid::test {
namespace {

using passes::PassContext;

std::string gather(const std::string& name, const std::string& operand, const std::string& type,
                   const std::string& group = "g") {
  return fmt::format(
      "%{0}: {2} = all_gather @{3} (%{1})\n%{0}.1 mutates %{0} = wait {0} as {0}.wait\nrelease {0}\n", name,
      operand, type, group);
}

const std::string kHead = R"(graph main
ranks 2
group @g = [0, 1]
group @h = [0, 1]

input %x: f32[64]
input %y: bf16[64]

)";

TEST(BucketCollectives, OneStartOneWaitOneReleaseAndNoCopy) {
  expect_passes("bucket_collectives", kHead + R"(%a: f32[128] = all_gather @g (%x)
%a.1 mutates %a = wait a
release a
%b: bf16[128] = all_gather @g (%y)
%b.1 mutates %b = wait b
release b
%c: f32[64] = extern "work" reads(%a.1, %b.1) cost(ns 1000)

output %c
)",
                kHead + R"(%a: f32[128], %b: bf16[128] = all_gather @g (%x, %y)
%a.1 mutates %a, %b.1 mutates %b = wait a
release a
%c: f32[64] = extern "work" reads(%a.1, %b.1) cost(ns 1000)

output %c
)");
}

TEST(BucketCollectives, WhatDependsOnABucketBeginsTheNext) {
  const std::string text = kHead + gather("a", "x", "f32[128]") +
                           "%p: f32[64] = extern \"work\" reads(%a.1) cost(ns 1000)\n" +
                           gather("b", "p", "f32[128]") + gather("c", "x", "f32[128]") +
                           "%e: f32[64] = extern \"work\" reads(%b.1, %c.1) cost(ns 1000)\n\noutput %e\n";
  EXPECT_EQ(order_after("bucket_collectives", text), "a a.wait a.release p b b.wait b.release e");
}

TEST(BucketCollectives, KeepsCommunicatorsKindsAndOnRequestTypesApart) {
  const std::string text =
      kHead + gather("a", "x", "f32[128]") + gather("b", "y", "bf16[128]") +
      gather("c", "x", "f32[128]", "h") +
      "%r: f32[64] = all_reduce sum @g (%x)\n%r.1 mutates %r = wait r as r.wait\nrelease r\n" +
      "%m: f32[64] = all_reduce max @g (%x)\n%m.1 mutates %m = wait m as m.wait\nrelease m\n" +
      "%e: f32[64] = extern \"work\" reads(%a.1, %b.1, %c.1, %r.1, %m.1) cost(ns 1000)\n\noutput %e\n";
  EXPECT_EQ(order_after("bucket_collectives", text),
            "a a.wait a.release c c.wait c.release r r.wait r.release m m.wait m.release e");
  EXPECT_EQ(
      order_after("bucket_collectives{mixed_dtypes=false}", text),
      "a a.wait a.release b b.wait b.release c c.wait c.release r r.wait r.release m m.wait m.release e");
}

TEST(BucketCollectives, KeepsTheSizeOfABucket) {
  std::string text = kHead, reads;
  for (int k = 0; k < 4; ++k) {
    text += gather(fmt::format("a{}", k), "x", "f32[128]");
    reads += fmt::format("{}%a{}.1", k > 0 ? ", " : "", k);
  }
  text += "%e: f32[64] = extern \"work\" reads(" + reads + ") cost(ns 1000)\n\noutput %e\n";
  // 512 bytes each.
  EXPECT_EQ(order_after("bucket_collectives{cap_mb=0.001024}", text),
            "a0 a0.wait a0.release a2 a2.wait a2.release e");
  EXPECT_EQ(order_after("bucket_collectives{cap_mb=0.001023}", text),
            "a0 a0.wait a0.release a1 a1.wait a1.release a2 a2.wait a2.release a3 a3.wait a3.release e");
  EXPECT_EQ(order_after("bucket_saturated", text), "a0 a0.wait a0.release e");
}

TEST(BucketCollectives, LeavesAloneWhatHasAnExplicitCostOrIsSendOrBlocking) {
  const std::string text =
      kHead + all_gather("a", "x") + wait("a") + all_gather("b", "x") + wait("b") +
      "%c: f32[128] = all_gather @g (%x) blocking\n%d: f32[128] = all_gather @g (%x) blocking\n" +
      "send @g (%x) peer 1 as s\nwait s as s.wait\nsend @g (%x) peer 1 as t\nwait t as t.wait\n" +
      "%e: f32[64] = extern \"work\" reads(%a.1, %b.1, %c, %d) cost(ns 1000)\n\noutput %e\n";
  EXPECT_EQ(order_after("bucket_collectives", text), order_after("", text));
  EXPECT_EQ(order_after("bucket_preserving_overlap", text), order_after("", text));
}

// Two buckets each of which needs a part of the other: only one of them may be.
TEST(BucketCollectives, BucketsInACircleAreNotBothMade) {
  const std::string text = kHead + gather("a1", "x", "f32[128]") + gather("b1", "x", "f32[128]", "h") +
                           "%p: f32[64] = extern \"work\" reads(%a1.1) cost(ns 1000)\n%q: f32[64] = extern "
                           "\"work\" reads(%b1.1) cost(ns 1000)\n" +
                           gather("b2", "p", "f32[128]", "h") + gather("a2", "q", "f32[128]") +
                           "%e: f32[64] = extern \"work\" reads(%a2.1, %b2.1) cost(ns 1000)\n\noutput %e\n";
  const std::string order = order_after("bucket_collectives", text);
  EXPECT_EQ(order, "b1 b1.wait b1.release q a1 a1.wait a1.release p b2 b2.wait b2.release e");
}

TEST(BucketPreservingOverlap, MergesNothingThatWouldExposeWhatWasHidden) {
  // Each gather is hidden under the layer before it; merged, the first layer waits for all.
  std::string text =
      "graph main\nranks 8\ngroup @g = [0, 1, 2, 3, 4, 5, 6, 7]\n\ninput %x: f32[64]\nconstant %w: "
      "bf16[4194304] = elided(0x1)\n\n";
  text += "%g0: bf16[33554432] = all_gather @g (%w)\n";
  std::string x = "x";
  for (int k = 0; k < 4; ++k) {
    if (k < 3) text += fmt::format("%g{}: bf16[33554432] = all_gather @g (%w)\n", k + 1);
    text += fmt::format("%g{0}.1 mutates %g{0} = wait g{0} as g{0}.wait\n", k);
    text += fmt::format("%y{}: f32[64] = extern \"gemm\" reads(%{}, %g{}.1) cost(ns 1000000)\n", k, x, k);
    x = fmt::format("y{}", k);
  }
  text += "\noutput %" + x + "\n";
  EXPECT_EQ(order_after("bucket_preserving_overlap", text), order_after("", text));
  EXPECT_NE(order_after("bucket_collectives{cap_mb=1000}", text), order_after("", text));
}

TEST(BucketPreservingOverlap, NeverMakesTheSimulatedTimeLonger) {
  std::string text = kHead, reads;
  for (int k = 0; k < 8; ++k) {
    text += fmt::format("%p{0}: f32[64] = extern \"work\" reads(%x) cost(ns {1})\n", k, 500 + 300 * k) +
            gather(fmt::format("a{}", k), fmt::format("p{}", k), "f32[128]");
    reads += fmt::format("{}%a{}.1", k > 0 ? ", " : "", k);
  }
  text += "%e: f32[64] = extern \"work\" reads(" + reads + ") cost(ns 1000)\n\noutput %e\n";
  PassContext context;
  order_after("schedule_for_comm,bucket_preserving_overlap", text, &context);
  ASSERT_EQ(context.reports.size(), 2u);
  EXPECT_LE(context.reports[1].makespan_after, context.reports[1].makespan_before);
  EXPECT_LT(context.reports[1].collectives.size(), 8u);
}

TEST(Bucketing, ReportsAlsoWhereNothingIsMerged) {
  const std::string text = kHead + gather("a", "x", "f32[128]") +
                           "%e: f32[64] = extern \"work\" reads(%a.1) cost(ns 1000)\n\noutput %e\n";
  for (const char* pass : {"bucket_collectives", "bucket_saturated", "bucket_preserving_overlap"}) {
    PassContext context;
    EXPECT_EQ(order_after(pass, text, &context), order_after("", text));
    ASSERT_EQ(context.reports.size(), 1u) << pass;
    EXPECT_EQ(context.reports[0].makespan_before, context.reports[0].makespan_after);
    EXPECT_EQ(context.reports[0].collectives.size(), 1u);
  }
}

TEST(Bucketing, ProgramsWithSendsKeepTheOrderOfCollectives) {
  const std::string text = kHead + gather("a", "x", "f32[128]") +
                           "send @h (%x) peer 1 as s\nwait s as s.wait\nrelease s\n" +
                           gather("b", "x", "f32[128]") +
                           "%e: f32[64] = extern \"work\" reads(%a.1, %b.1) cost(ns 1000)\n\noutput %e\n";
  EXPECT_EQ(order_after("bucket_collectives", text), order_after("", text));
}

// What buckets are judged by is what the merged schedule takes.
TEST(MergedMakespan, IsThatOfTheMergedSchedule) {
  constexpr int kEnough = 10, kMostPrograms = 10'000;
  int merged = 0;
  for (int k = 0; k < random_cases(300) || merged <= kEnough; ++k) {
    ASSERT_LT(k, kMostPrograms) << "hardly any program has something to merge";
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    const ir::Schedule schedule = random_program(seed, 24).schedule;
    const PassContext context;
    const analysis::Problem p = analysis::make_problem(schedule, *context.costs, {.channel_order = false});
    passes::BucketRules rules;
    rules.cap = [](const analysis::CollectiveShape&) { return 1'000'000; };
    const auto buckets = passes::greedy_buckets(schedule, p, *context.costs, rules);
    if (buckets.empty()) continue;
    std::vector<analysis::CollectiveCost> costs;
    for (const passes::Bucket& b : buckets)
      costs.push_back(passes::merged_cost(schedule, p, *context.costs, b));
    const auto makespan = passes::merged_makespan(p, buckets, costs);
    ir::Schedule after = schedule;
    ASSERT_EQ(passes::merge_collectives(after, p, buckets), makespan.has_value()) << "seed " << seed;
    if (!makespan) continue;
    ++merged;
    const analysis::Problem q = analysis::make_problem(after, *context.costs, {.channel_order = false});
    EXPECT_EQ(*makespan, analysis::simulate_makespan(q, analysis::identity_order(q.nodes())))
        << "seed " << seed;
    const analysis::Problem fixed = analysis::make_fixed_problem(after, *context.costs);
    EXPECT_EQ(*makespan, analysis::simulate_makespan(fixed, analysis::identity_order(fixed.nodes())));
  }
}

}  // namespace
}  // namespace braid::test
