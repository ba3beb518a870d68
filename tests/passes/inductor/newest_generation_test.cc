// simple_overlap, reorder_communication_preserving_peak_memory, sink_waits_iterative,
// reorder_for_peak_memory.
#include <gtest/gtest.h>

#include "analysis/measure.h"
#include "analysis/order_analysis.h"
#include "tests/support/orders.h"
#include "tests/support/random.h"
#include "tests/support/random_graph.h"
#include "tests/support/schedule_changes.h"

namespace braid::test {
namespace {

using analysis::LimitReason;
using analysis::NodeId;
using passes::PassContext;

// A chain of layers whose gathered weights live from the start of the gather to their use.
std::string layers(int count, int gather_ns, int compute_ns) {
  std::string body, x = "x";
  for (int k = 0; k < count; ++k) {
    const std::string g = fmt::format("g{}", k), y = fmt::format("y{}", k);
    body += all_gather(g, "w", gather_ns) + wait(g) + release(g) +
            compute(y, fmt::format("%{}, %{}.1", x, g), compute_ns);
    x = y;
  }
  return graph(body, "output %" + x + "\n");
}

TEST(ReorderPreservingPeakMemory, TakesWhatItNeedsAlongAndStopsWhenCovered) {
  const std::string text = graph(compute("a", "%x", 1000) + compute("b", "%a", 1000) +
                                     compute("c", "%b", 1000) + compute("cast", "%x", 10) +
                                     all_gather("g", "cast", 1000) + wait("g") + compute("d", "%c, %g.1"),
                                 "output %d\n");
  PassContext context;
  EXPECT_EQ(order_after("reorder_communication_preserving_peak_memory{budget=10}", text, &context),
            "a cast g b c g.wait d");
  ASSERT_EQ(context.reports.size(), 1u);
  EXPECT_EQ(context.reports[0].collectives[0].moves, 2);
  EXPECT_EQ(context.reports[0].collectives[0].final_exposed.ps, 0);
}

TEST(ReorderPreservingPeakMemory, HasOneBudgetForAllPassesOfARun) {
  const std::string text = layers(6, 1000, 1000);
  PassContext context;
  const std::string once = order_after("reorder_communication_preserving_peak_memory", text, &context);
  const std::int64_t base = *context.live_base;
  const std::string often = order_after(
      "reorder_communication_preserving_peak_memory,sink_waits_iterative,reorder_communication_preserving_"
      "peak_memory,"
      "sink_waits_iterative,reorder_communication_preserving_peak_memory",
      text, &context);
  EXPECT_EQ(*context.live_base, base);
  for (const auto& report : context.reports) EXPECT_LE(report.live_after, base * 12 / 10) << report.pass;
  EXPECT_EQ(once, often);
}

TEST(ReorderPreservingPeakMemory, SaysWhichStepLacksHowManyBytes) {
  PassContext context;
  ir::Schedule schedule = ir::parse_schedule(layers(3, 1000, 1000), "test");
  const analysis::OverlapReport report =
      report_after("reorder_communication_preserving_peak_memory{budget=0}", schedule, context);
  const analysis::Limit& limit = report.collectives[1].limit;
  EXPECT_EQ(limit.reason, LimitReason::memory);
  EXPECT_EQ(limit.bytes, 256) << "two gathered weights and a result, not one and two results";
  EXPECT_EQ(limit.step, 4);
}

// An analysis that is kept between passes equals a new one: same steps, dependencies, collectives, lifetimes.
TEST(OrderAnalysis, OfAnotherOrderIsThatOfTheScheduleInThatOrder) {
  const std::uint64_t first = first_seed();
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(random_cases(100)); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    ir::Schedule schedule = random_program(seed, 20).schedule;
    const auto costs = PassContext().costs;
    const analysis::OrderAnalysis before(schedule, costs, {});
    const ir::Schedule original = schedule;
    if (!shuffle_nodes(schedule, seed)) continue;
    analysis::Order order;
    for (const ir::ScheduleNode& node : schedule.nodes) {
      for (const NodeId n : analysis::nodes_of(original)) {
        if (ir::ops_of(ir::at(original.nodes, n)) == ir::ops_of(node)) order.push_back(n);
      }
    }
    const auto kept = before.in_order(order);
    const analysis::OrderAnalysis anew(schedule, costs, {});
    EXPECT_TRUE(kept->describes(schedule, *costs, {}));
    EXPECT_FALSE(before.describes(schedule, *costs, {}));
    const analysis::Problem &a = kept->problem, &b = anew.problem;
    const analysis::Order identity = analysis::identity_order(b.nodes());
    EXPECT_EQ(simulate_makespan(a, identity), simulate_makespan(b, identity));
    ASSERT_EQ(a.collectives.size(), b.collectives.size());
    for (const analysis::CollectiveId c : b.collectives.ids()) {
      EXPECT_EQ(a.collectives[c].op, b.collectives[c].op);
      EXPECT_EQ(a.collectives[c].wait, b.collectives[c].wait);
      EXPECT_EQ(a.collectives[c].release, b.collectives[c].release);
    }
    EXPECT_EQ(kept->memory.live(identity).bytes, anew.memory.live(identity).bytes);
    EXPECT_EQ(kept->memory.planned_bytes(identity), anew.memory.planned_bytes(identity));
    // The same orders are legal: of the direct dependencies each way, all hold in the closure of the other.
    const auto closure = [](const analysis::Problem& p) {
      analysis::IdVector<NodeId, analysis::IdVector<NodeId, bool>> before_of(p.nodes());
      for (NodeId n : p.nodes()) {
        auto& mine = before_of[n];
        mine.assign(p.nodes(), false);
        for (const NodeId d : p.predecessors(n)) {
          mine[d] = true;
          for (const NodeId k : p.nodes()) {
            if (before_of[d][k]) mine[k] = true;
          }
        }
      }
      return before_of;
    };
    EXPECT_EQ(closure(a), closure(b));
  }
}

}  // namespace
}  // namespace braid::test
