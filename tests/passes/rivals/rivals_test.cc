// earliest_start_latest_wait, latency_hiding, simple_fsdp: the rules of their sources, and the closed forms
// for uniform layers.
#include <gtest/gtest.h>

#include <random>

#include "analysis/measure.h"
#include "passes/pass_context.h"
#include "tests/support/orders.h"
#include "tests/support/random.h"

namespace braid::test {
namespace {

using analysis::Time;
using passes::PassContext;

// Layer k: gather of its weights (cost a), compute (cost c).
std::string uniform_layers(int count, int a, int c) {
  std::string body, x = "x";
  for (int k = 0; k < count; ++k) {
    body += all_gather(fmt::format("g{}", k), "w", a) + wait(fmt::format("g{}", k)) +
            compute(fmt::format("y{}", k), fmt::format("%{}, %g{}.1", x, k), c);
    x = fmt::format("y{}", k);
  }
  return graph(body, "output %" + x + "\n");
}

// Explicit costs, so nothing is slowed down; field_anchors: with a <= c one gather stays exposed, with a > c
// compute hides behind gathers.
void reaches_the_closed_form_of(const std::string& passes, int count, int a, int c) {
  SCOPED_TRACE(fmt::format("{}: {} layers, gather {}, compute {}", passes, count, a, c));
  ir::Schedule schedule = ir::parse_schedule(uniform_layers(count, a, c), "test");
  PassContext context;
  passes::run_passes(schedule, passes::parse_pass_list(passes), {.context = &context});
  analysis::Problem p = analysis::make_problem(schedule, *context.costs);
  for (analysis::Step& s : p.steps) s.slowdown = 1000;
  for (analysis::Collective& s : p.collectives) s.cost.slowdown = 1000;
  const int ns = a <= c ? a + count * c : count * a + c;
  EXPECT_EQ(simulate_makespan(p, analysis::identity_order(p.nodes())).ps, Time::from_ns(ns).ps);
}

void reaches_the_closed_form(const std::string& passes) {
  for (int count : {1, 2, 5, 9}) {
    for (const auto& [a, c] :
         std::vector<std::pair<int, int>>{{500, 1000}, {1000, 1000}, {1500, 1000}, {3000, 1000}}) {
      reaches_the_closed_form_of(passes, count, a, c);
    }
  }
  for (int k = 0; k < random_cases(60); ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const int count = 1 + static_cast<int>(random() % 40), a = 1 + static_cast<int>(random() % 5000);
    reaches_the_closed_form_of(passes, count, a, 1 + static_cast<int>(random() % 5000));
  }
}

TEST(EarliestStartLatestWait, ReachesTheClosedFormOfUniformLayers) {
  reaches_the_closed_form("earliest_start_latest_wait");
}
TEST(LatencyHiding, ReachesTheClosedFormOfUniformLayers) { reaches_the_closed_form("latency_hiding"); }
TEST(SimpleFsdp, ReachesTheClosedFormOfUniformLayers) { reaches_the_closed_form("simple_fsdp"); }
TEST(BraidSchedule, ReachesTheClosedFormOfUniformLayers) { reaches_the_closed_form("braid_schedule"); }

// Gradients that are only read at the end: the second is summed up beside the compute that makes the first
// layer's.
TEST(LatencyHiding, HidesGradientsThatAreOnlyReadAtTheEnd) {
  std::string body = compute("y", "%x", 1000), outputs;
  for (int k = 0; k < 4; ++k) {
    body += compute(fmt::format("y{}", k), k == 0 ? "%y" : fmt::format("%y{}", k - 1), 1000) +
            all_gather(fmt::format("g{}", k), fmt::format("y{}", k), 500) + wait(fmt::format("g{}", k)) +
            compute(fmt::format("u{}", k), fmt::format("%g{}.1", k), 1);
    outputs += fmt::format("output %u{}\n", k);
  }
  ir::Schedule schedule = ir::parse_schedule(graph(body, outputs), "test");
  PassContext context;
  passes::run_passes(schedule, passes::parse_pass_list("latency_hiding"), {.context = &context});
  EXPECT_LT(analysis::measure(schedule, *context.costs).exposed.ps, Time::from_ns(550).ps);
}

TEST(LatencyHiding, GoesForTheDeeperChainOfCollectives) {
  const std::string text =
      graph(compute("p", "%x", 1000) + compute("q", "%x", 1000) + all_gather("g", "p", 500) + wait("g") +
                compute("r", "%g.1", 1000) + all_gather("h", "r", 500) + wait("h") + compute("d", "%h.1, %q"),
            "output %d\n");
  const std::string order = order_after("latency_hiding", text);
  EXPECT_EQ(order.substr(order.size() - 1), "d");
  PassContext context;
  order_after("latency_hiding", text, &context);
  EXPECT_LT(context.reports[0].makespan_after, context.reports[0].makespan_before);
}

TEST(LatencyHiding, RunsAgainWithLessMemoryUntilThePlanKeepsTheCap) {
  const std::string text = uniform_layers(8, 3000, 1000);
  ir::Schedule schedule = ir::parse_schedule(text, "test");
  const analysis::MemoryModel memory(schedule);
  PassContext context;
  context.memory_cap = memory.planned_bytes(analysis::identity_order(analysis::nodes_of(schedule)));
  passes::run_passes(schedule, passes::parse_pass_list("latency_hiding{in_flight=8}"), {.context = &context});
  const analysis::MemoryModel after(schedule);
  EXPECT_LE(after.planned_bytes(analysis::identity_order(analysis::nodes_of(schedule))), *context.memory_cap);
}

}  // namespace
}  // namespace braid::test
