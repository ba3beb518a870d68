#include "analysis/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/parser.h"
#include "tests/support/build_problem.h"

namespace braid::analysis {
namespace {

// A gather of 100 ns beside a kernel of 60 ns, and one of 30 ns on another communicator that nothing hides.
constexpr const char* kText = R"(graph overlap
ranks 2
group @dp = [0, 1]
group @tp = [0, 1]

input %x: f32[64]

%g: f32[128] = all_gather @dp (%x) as gather cost(ns 100)
%a: f32[64] = extern "mm" reads(%x) as first cost(ns 60)
%g.1 mutates %g = wait gather
%b: f32[64] = extern "mm" reads(%g.1, %a) as second cost(ns 50)
%r: f32[64] = all_reduce sum @tp (%b) as reduce cost(ns 30)
%r.1 mutates %r = wait reduce

output %r.1
)";

struct Fixture {
  ir::Schedule schedule = ir::parse_schedule(kText, "test");
  CostModel costs{load_machine(kDefaultMachine)};
};

TEST(MakeProblem, NodesStepsAndChannelsOfAText) {
  Fixture f;
  const Problem p = make_problem(f.schedule, f.costs);
  ASSERT_EQ(p.size(), 6);
  ASSERT_EQ(p.collectives.size(), 2u);
  EXPECT_EQ(p.channels, 2);
  EXPECT_EQ(p.started_by(NodeId{0}).index, 0);
  EXPECT_EQ(p.waited_by(NodeId{2}).index, 0);
  EXPECT_FALSE(p.started_by(NodeId{1}).valid());
  EXPECT_EQ(p.compute_time(NodeId{3}).ns(), 50);
  EXPECT_EQ(p.collectives[CollectiveId{1}].start.index, 4);
  EXPECT_EQ(p.collectives[CollectiveId{1}].wait.index, 5);
  EXPECT_EQ(p.collectives[CollectiveId{1}].release.index, -1);
  EXPECT_THAT(p.predecessors(NodeId{3}), testing::ElementsAre(NodeId{1}, NodeId{2}));
}

TEST(MakeProblem, GroupIsOneNodeOfSeveralSteps) {
  const ir::Schedule s = ir::parse_schedule(R"(graph groups
ranks 2
group @dp = [0, 1]

input %x: f32[64]

grouped cast_and_gather {
  %c: f32[64] = extern "cast" reads(%x) cost(copy, ns 5)
  %g: f32[128] = all_gather @dp (%c) as gather cost(ns 100)
}
%g.1 mutates %g = wait gather

output %g.1
)",
                                            "test");
  const Problem p = make_problem(s, CostModel(load_machine(kDefaultMachine)));
  ASSERT_EQ(p.size(), 2);
  ASSERT_EQ(p.steps_of(NodeId{0}).size(), 2u);
  EXPECT_EQ(p.steps_of(NodeId{0})[0].kind, Step::Kind::compute);
  EXPECT_EQ(p.steps_of(NodeId{0})[1].kind, Step::Kind::start);
  EXPECT_EQ(simulate_makespan(p, identity_order(2)).ns(), 105);
}

TEST(MakeProblem, SendsOfDifferentPeersHaveTheirOwnChannels) {
  const auto channels = [](const std::string& policy) {
    const ir::Schedule s = ir::parse_schedule("graph peers\nranks 3\nchannels " + policy + R"(
group @all = [0, 1, 2]

input %x: f32[4]

send @all (%x) peer 1 as one cost(ns 1)
send @all (%x) peer 2 as two cost(ns 1)
%got: f32[4] = recv @all peer 1 cost(ns 1)
wait one
wait two
%got.1 mutates %got = wait got

output %got.1
)",
                                              "test");
    return make_problem(s, CostModel(load_machine(kDefaultMachine))).channels;
  };
  EXPECT_EQ(channels("global"), 1);
  EXPECT_EQ(channels("communicator"), 1);
  EXPECT_EQ(channels("pair"), 2);
  EXPECT_EQ(channels("edge"), 3);
}

TEST(ApplyOrder, MovesNodesAndDropsThePlan) {
  Fixture f;
  f.schedule.plan.emplace();
  EXPECT_FALSE(apply_order(f.schedule, identity_order(6)));
  EXPECT_TRUE(f.schedule.plan);
  EXPECT_TRUE(apply_order(f.schedule, test::order_of({1, 0, 2, 3, 4, 5})));
  EXPECT_FALSE(f.schedule.plan);
  EXPECT_EQ(ir::name_of(f.schedule, 0), "first");
}

TEST(Measure, OneScheduleInFigures) {
  Fixture f;
  const Measurement m = measure(f.schedule, f.costs);
  EXPECT_GE(m.makespan.ns(), 180);
  EXPECT_GE(m.makespan, m.bounds.best());
  EXPECT_GE(m.bounds.best(), m.input_bound);
  EXPECT_EQ(m.exposed, m.collectives[0].final_exposed + m.collectives[1].final_exposed);
  ASSERT_EQ(m.collectives.size(), 2u);
  EXPECT_EQ(m.collectives[0].name, "gather");
  EXPECT_EQ(m.collectives[0].kernel, "all_gather @dp 512 B");
  EXPECT_EQ(m.collectives[1].kernel, "all_reduce @tp 256 B");
  EXPECT_EQ(m.collectives[1].final_exposed.ns(), 30);
  EXPECT_EQ(m.live_peak, 1024) << "a, b, g";
  EXPECT_GE(m.planned_bytes, m.live_peak);
}

TEST(Measure, ReportComparesByName) {
  Fixture f;
  const Measurement before = measure(f.schedule, f.costs);
  Measurement after = before;
  after.collectives[0].final_exposed = {};
  after.collectives[1].name = "merged";
  const OverlapReport r = make_report("some_pass", before, after);
  EXPECT_EQ(r.collectives[0].initial_exposed, before.collectives[0].final_exposed);
  EXPECT_EQ(r.collectives[0].final_exposed.ps, 0);
  EXPECT_EQ(r.collectives[1].initial_exposed.ps, 0) << "there was none of that name";
  EXPECT_EQ(r.makespan_before, before.makespan);
}

TEST(Measure, BytesReadLikeBytes) {
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(64 << 20), "64.0 MiB");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
}

TEST(Report, LimitsReadLikeReasons) {
  EXPECT_EQ(to_string(Limit{LimitReason::data, "mm3"}), "data dependency on 'mm3'");
  EXPECT_EQ(to_string(Limit{LimitReason::memory, {}, 17, 1048576}),
            "memory: 1048576 bytes too many at step 17");
}

}  // namespace
}  // namespace braid::analysis
