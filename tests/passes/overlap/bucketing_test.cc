// bucket_collectives, bucket_saturated, bucket_preserving_overlap, and the merging beneath them.
#include "passes/overlap/bucketing.h"

#include <gtest/gtest.h>

#include "analysis/measure.h"
#include "analysis/simulator.h"
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

// The makespan by which buckets are judged is that of the merged schedule.
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
