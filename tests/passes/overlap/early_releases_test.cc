#include "passes/overlap/early_releases.h"

#include <gtest/gtest.h>

#include "analysis/memory_model.h"
#include "analysis/simulator.h"
#include "tests/support/orders.h"
#include "tests/support/random.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_problem.h"

namespace braid::test {
namespace {

using analysis::identity_order;
using analysis::IdVector;
using analysis::MemoryModel;
using analysis::NodeId;
using analysis::Order;
using analysis::Problem;
using passes::PassContext;

const std::vector<std::string> kThatBuildOrders = {
    "sink_waits",
    "raise_comms",
    "decide_global_ordering_of_comms,reorder_compute_for_overlap",
    "schedule_for_comm",
    "simple_overlap",
    "sink_waits_iterative",
    "reorder_for_peak_memory",
    "earliest_start_latest_wait",
    "latency_hiding",
    "braid_schedule{merge=false,split=false}"};

TEST(EarlyReleases, OfRandomOrdersCostNeitherTimeNorMemory) {
  for (int k = 0; k < random_cases(300); ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const ir::Schedule schedule = random_program(seed, 20).schedule;
    const Problem p = analysis::make_problem(schedule, *PassContext().costs);
    const MemoryModel memory(schedule);
    const Order order = random_order(p, seed);
    const Order early = passes::with_early_releases(p, order);
    IdVector<NodeId, char> done(p.nodes(), 0);
    for (NodeId n : early) {
      for (NodeId before : p.predecessors(n)) ASSERT_EQ(done[before], 1);
      done[n] = 1;
    }
    EXPECT_EQ(simulate_makespan(p, early), simulate_makespan(p, order));
    EXPECT_LE(memory.live(early).peak, memory.live(order).peak);
    EXPECT_EQ(passes::with_early_releases(p, early), early);
  }
}

TEST(EarlyReleases, NoPassThatBuildsAnOrderDelaysAny) {
  for (int k = 0; k < random_cases(60); ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    const ir::Schedule input = random_program(seed, 20).schedule;
    for (const std::string& passes : kThatBuildOrders) {
      SCOPED_TRACE(fmt::format("seed {}, {}", seed, passes));
      ir::Schedule schedule = input;
      passes::run_passes(schedule, passes::parse_pass_list(passes), {});
      const Problem p = analysis::make_problem(schedule, *PassContext().costs);
      const Order order = identity_order(p.nodes());
      EXPECT_EQ(passes::with_early_releases(p, order), order) << names(schedule);
    }
  }
}

// Three all-reduces in a row; each needs the memory of two.
std::string three_in_a_row() {
  std::string body, from = "x";
  for (const char* s : {"s", "t", "u"}) {
    body += fmt::format(
        "%{0}.in: f32[1024] comm(symmetric, @g) = pointwise {{ %0 = load %{1} store %0 }}\n"
        "%{0}: f32[1024] comm(registered, @g) = all_reduce sum @g (%{0}.in) cost(ns 1000)\n",
        s, from);
    body += wait(s) + release(s);
    from = fmt::format("{}.1", s);
  }
  return "graph main\nranks 2\ngroup @g = [0, 1]\n\ninput %x: f32[1024]\n\n" + body +
         "%o: f32[1024] output = pointwise { %0 = load %" + from + " store %0 }\n\noutput %o\n";
}

TEST(EarlyReleases, KeepTheMemoryOfThreeAllReducesInARowAtTwoBuffers) {
  for (const std::string& passes : kThatBuildOrders) {
    ir::Schedule schedule = ir::parse_schedule(three_in_a_row(), "test");
    passes::run_passes(schedule, passes::parse_pass_list(passes), {});
    EXPECT_EQ(MemoryModel(schedule).planned_bytes(identity_order(analysis::nodes_of(schedule))), 8192)
        << passes;
  }
}

}  // namespace
}  // namespace braid::test
