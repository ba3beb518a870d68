#include "analysis/simulator.h"

#include <gtest/gtest.h>

#include "tests/support/build_problem.h"

namespace braid::analysis {
namespace {

using test::ProblemBuilder;

Time in_order(const Problem& p) { return simulate_makespan(p, identity_order(p.nodes())); }

TEST(Simulator, ComputeStepsAddUp) {
  ProblemBuilder b;
  b.compute(30);
  b.compute(12);
  EXPECT_EQ(in_order(b.build()).ps, 42);
}

TEST(Simulator, CollectiveRunsBesideCompute) {
  ProblemBuilder b;
  const NodeId s = b.start(100);
  b.compute(70);
  b.wait(s);
  b.compute(5);
  const Problem p = b.build();
  const Timeline t = simulate(p, identity_order(p.nodes()));
  EXPECT_EQ(t.makespan.ps, 105);
  EXPECT_EQ(t.collectives[CollectiveId{0}].exposed.ps, 30);
  EXPECT_EQ(t.exposed.ps, 30);
  EXPECT_EQ(t.compute.ps, 75);
}

TEST(Simulator, BlockingCollectiveStopsTheComputeStream) {
  ProblemBuilder b;
  b.start(100, {}, {.blocking = true});
  b.compute(70);
  EXPECT_EQ(in_order(b.build()).ps, 170);
}

TEST(Simulator, ChannelIsAQueue) {
  ProblemBuilder b;
  const NodeId s = b.start(100), t = b.start(50);
  b.wait(t);
  b.compute(10);
  b.wait(s);
  EXPECT_EQ(in_order(b.build()).ps, 160) << "the second one waits for the first";
}

TEST(Simulator, ChannelsOfOneFabricShareIt) {
  ProblemBuilder b;
  const NodeId s = b.start(100, {}, {.channel = 0}), t = b.start(50, {}, {.channel = 1});
  b.wait(t);
  b.compute(10);
  b.wait(s);
  // Both at half speed until 100; the first one has 50 left then, alone.
  EXPECT_EQ(in_order(b.build()).ps, 150);
}

TEST(Simulator, FabricsDoNotDisturbEachOther) {
  ProblemBuilder b;
  const NodeId s = b.start(100, {}, {.channel = 0}), t = b.start(50, {}, {.channel = 1, .fabric = 1});
  b.wait(t);
  b.compute(10);
  b.wait(s);
  EXPECT_EQ(in_order(b.build()).ps, 100);
}

TEST(Simulator, ComputeIsSlowerWhileSomethingIsInFlight) {
  ProblemBuilder b;
  const NodeId s = b.start(60);
  b.compute(100, {}, 1200);
  b.wait(s);
  // 60 beside the collective do the work of 50; the other 50 run alone.
  EXPECT_EQ(in_order(b.build()).ps, 110);
}

TEST(Simulator, CollectiveIsSlowerWhileTheStreamComputes) {
  ProblemBuilder b;
  const NodeId s = b.start(100, {}, {.slowdown = 2000});
  b.compute(80);
  b.wait(s);
  EXPECT_EQ(in_order(b.build()).ps, 140);
}

TEST(Simulator, WhatIsInFlightAtTheEndCounts) {
  ProblemBuilder b;
  b.start(100);
  b.compute(10);
  const Problem p = b.build();
  const Timeline t = simulate(p, identity_order(p.nodes()));
  EXPECT_EQ(t.makespan.ps, 100);
  EXPECT_EQ(t.exposed.ps, 90);
}

// Whatever wait comes first, each is charged its own transfer.
TEST(Simulator, AWaitIsChargedToWhatIsQueuedBeforeTheAwaitedOne) {
  ProblemBuilder b;
  const NodeId r = b.start(100), s = b.start(30), t = b.start(50);
  b.wait(t);
  b.wait(s);
  b.wait(r);
  const Problem p = b.build();
  const Timeline timeline = simulate(p, identity_order(p.nodes()));
  EXPECT_EQ(timeline.collectives[CollectiveId{0}].exposed.ps, 100);
  EXPECT_EQ(timeline.collectives[CollectiveId{1}].exposed.ps, 30);
  EXPECT_EQ(timeline.collectives[CollectiveId{2}].exposed.ps, 50);
  EXPECT_EQ(timeline.collectives[CollectiveId{2}].blocked.ps, 180) << "in its wait";
  EXPECT_EQ(timeline.collectives[CollectiveId{0}].blocked.ps, 0);
}

TEST(Simulator, AWaitIsChargedToAllThatShareTheFabric) {
  ProblemBuilder b;
  const NodeId s = b.start(50, {}, {.channel = 0});
  b.start(101, {}, {.channel = 1});
  b.start(500, {}, {.channel = 2, .fabric = 1});
  b.wait(s);
  b.compute(1000);
  const Problem p = b.build();
  const Timeline timeline = simulate(p, identity_order(p.nodes()));
  EXPECT_EQ(timeline.collectives[CollectiveId{0}].exposed.ps, 50);
  EXPECT_EQ(timeline.collectives[CollectiveId{1}].exposed.ps, 50) << "100 ps at half speed";
  EXPECT_EQ(timeline.collectives[CollectiveId{2}].exposed.ps, 0) << "on a fabric of its own";
}

TEST(Simulator, CopyOfAPrefixGoesItsOwnWay) {
  ProblemBuilder b;
  const NodeId s = b.start(100), c = b.compute(40), w = b.wait(s);
  const Problem p = b.build();
  Simulator one(p);
  one.append(s);
  Simulator two = one;
  one.append(c);
  two.append(w);
  EXPECT_EQ(one.now().ps, 40);
  EXPECT_EQ(one.finish().ps, 100);
  EXPECT_EQ(one.in_flight(), 1);
  EXPECT_EQ(two.now().ps, 100);
  EXPECT_EQ(two.blocked().ps, 100);
  EXPECT_TRUE(two.complete(CollectiveId{0}));
  EXPECT_FALSE(one.complete(CollectiveId{0}));
}

}  // namespace
}  // namespace braid::analysis
