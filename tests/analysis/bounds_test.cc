#include "analysis/bounds.h"

#include <gtest/gtest.h>

#include "analysis/chains.h"
#include "analysis/simulator.h"
#include "tests/support/build_problem.h"
#include "tests/support/random_problem.h"

namespace braid::analysis {
namespace {

using test::ProblemBuilder;

// Layers of a gather and the compute that needs it; gathers of one channel, in order.
Problem uniform_layers(int layers, std::int64_t gather, std::int64_t compute) {
  ProblemBuilder b;
  NodeId before, last_start;
  for (int l = 0; l < layers; ++l) {
    last_start =
        b.start(gather, !last_start.valid() ? std::vector<NodeId>{} : std::vector<NodeId>{last_start});
    const NodeId w = b.wait(last_start);
    before = b.compute(compute, !before.valid() ? std::vector<NodeId>{w} : std::vector<NodeId>{w, before});
  }
  return b.build();
}

TEST(Bounds, UniformLayersWithShortGathersExposeTheFirstOne) {
  const Problem p = uniform_layers(10, 30, 50);
  EXPECT_EQ(lower_bounds(p).best().ps, 30 + 10 * 50);
}

TEST(Bounds, UniformLayersWithLongGathersExposeTheDifference) {
  const Problem p = uniform_layers(10, 70, 50);
  EXPECT_EQ(lower_bounds(p).best().ps, 10 * 70 + 50);
}

TEST(Bounds, UniformLayersReachTheBound) {
  for (const std::int64_t gather : {30, 50, 70}) {
    const Problem p = uniform_layers(10, gather, 50);
    Order order;  // all starts first
    for (int n = 0; n < p.size(); n += 3) order.push_back(NodeId{n});
    for (NodeId n : p.nodes()) {
      if (n.index % 3 != 0) order.push_back(n);
    }
    EXPECT_EQ(simulate_makespan(p, order), lower_bounds(p).best()) << "gather " << gather;
  }
}

TEST(Bounds, OverlapIsPaidForByTheLeastSlowedDown) {
  // 100 of collectives beside 100 that are slowed down by 1.1 and 100 by 2; nothing depends on anything.
  ProblemBuilder b;
  b.start(100);
  b.compute(100, {}, 1100);
  b.compute(100, {}, 2000);
  // 100 beside the first one do 90.9 of its work: 9.1 more than alone.
  EXPECT_NEAR(static_cast<double>(lower_bounds(b.build()).contention.ps), 209, 2);
}

TEST(Bounds, CollectiveBetweenAllComputeCannotBeHidden) {
  ProblemBuilder b;
  const NodeId first = b.compute(100, {}, 1500);
  const NodeId s = b.start(40, {first});
  const NodeId w = b.wait(s);
  b.compute(60, {w}, 1500);
  const Problem p = b.build();
  EXPECT_EQ(what_runs_beside(p).most_hidden[CollectiveId{0}].ps, 0);
  EXPECT_EQ(lower_bounds(p).best().ps, 200);
}

TEST(Bounds, CollectiveHidesBehindWhatIsBesideIt) {
  ProblemBuilder b;
  const NodeId first = b.compute(100);
  const NodeId s = b.start(40, {first});
  b.compute(25, {first});
  const NodeId w = b.wait(s);
  b.compute(60, {w});
  const Problem p = b.build();
  EXPECT_EQ(what_runs_beside(p).most_hidden[CollectiveId{0}].ps, 26) << "25, and one for rounding";
  EXPECT_EQ(lower_bounds(p).best().ps, 200);
}

TEST(Bounds, InputBoundTakesFloors) {
  ProblemBuilder b;
  NodeId before = b.compute(10);
  for (int k = 0; k < 4; ++k) {
    const NodeId s = b.start(30, {before}, {.latency = 20, .floor = 10});
    before = b.compute(10, {b.wait(s)});
  }
  const Problem p = b.build();
  EXPECT_EQ(lower_bounds(p).best().ps, 10 + 4 * 40);
  EXPECT_EQ(input_bound(p).ps, 10 + 4 * 20);
}

TEST(OneMachine, PreemptsForTheLongerTail) {
  EXPECT_EQ(one_machine_bound({{{0}, {10}, {0}}, {{4}, {3}, {20}}}).ps, 27);
  EXPECT_EQ(one_machine_bound({}).ps, 0);
}

class RandomBounds : public testing::TestWithParam<int> {};

// Neither a random order nor the best one goes below the bounds, with and without contention, queues and
// groups; and no order takes longer than everything one after the other at its slowest.
TEST_P(RandomBounds, HoldForEveryOrder) {
  const test::RandomProblemOptions variants[] = {
      {.nodes = 8, .channels = 1, .fabrics = 1, .contention = false, .groups = false, .blocking = false},
      {.nodes = 8, .channels = 2, .fabrics = 1},
      {.nodes = 8, .channels = 3, .fabrics = 2, .edges = 0.15},
      {.nodes = 40, .channels = 3, .fabrics = 2, .edges = 0.05},
      {.nodes = 40, .channels = 2, .fabrics = 1, .edges = 0.1, .channel_order = true},
      {.nodes = 60, .channels = 1, .fabrics = 1, .edges = 0.02, .max_time = 100000},
  };
  const test::RandomProblemOptions& o = variants[GetParam()];
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Problem p = test::random_problem(seed, o);
    const Bounds bounds = lower_bounds(p);
    std::vector<Order> orders = {identity_order(p.nodes())};
    for (std::uint64_t k = 0; k < 5; ++k) orders.push_back(test::random_order(p, seed * 100 + k));
    if (o.nodes <= 8) orders.push_back(test::exhaustive_optimum(p).order);
    Time slowest;
    for (const Step& s : p.steps) slowest += stretched(s.work, s.slowdown);
    for (const Collective& c : p.collectives) slowest += stretched(c.cost.time, c.cost.slowdown);
    slowest.ps += 2 * static_cast<std::int64_t>(p.steps.size());  // rounding
    for (const Order& order : orders) {
      const Time makespan = simulate_makespan(p, order);
      ASSERT_GE(makespan, bounds.critical_path);
      ASSERT_GE(makespan, bounds.load);
      ASSERT_GE(makespan, bounds.head_and_tail);
      ASSERT_GE(makespan, bounds.contention);
      ASSERT_GE(makespan, input_bound(p));
      ASSERT_LE(makespan, slowest);
      ASSERT_NEAR(static_cast<double>(makespan.ps), test::slow_makespan(p, order),
                  4.0 * static_cast<double>(p.steps.size()));
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Variants, RandomBounds, testing::Range(0, 6));

}  // namespace
}  // namespace braid::analysis
