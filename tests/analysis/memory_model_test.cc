#include "analysis/memory_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "analysis/problem.h"
#include "ir/dependencies.h"
#include "ir/effects.h"
#include "ir/error.h"
#include "ir/parser.h"
#include "passes/plan_memory.h"
#include "tests/support/build.h"
#include "tests/support/build_problem.h"
#include "tests/support/random_graph.h"
#include "tests/support/schedule_changes.h"

namespace braid::analysis {
namespace {

using namespace ir;
using test::Builder;

// x -> p, x -> q, (p, q) -> y, of 64 floats.
Builder two_branches() {
  Builder b;
  const BufferId x = b.input("x", {64});
  const BufferId p = b.activation("p", {64}), q = b.activation("q", {64});
  b.add("make_p", p, {x});
  b.add("make_q", q, {x});
  b.add("make_y", b.result("y", {64}), {p, q});
  return b;
}

TEST(MemoryModel, LivePeakIsWhereAndWhatTheTenantsSay) {
  Builder b = two_branches();
  const MemoryModel m(b.schedule);
  const auto live = m.live(identity_order(3));
  EXPECT_THAT(live.bytes, testing::ElementsAre(256, 512, 512));
  EXPECT_EQ(live.peak, 512);
  EXPECT_EQ(live.peak_step.index, 1);
}

TEST(MemoryModel, CapThatCannotBeMetNamesStepBytesAndTensors) {
  Builder b = two_branches();
  const MemoryModel m(b.schedule);
  EXPECT_NO_THROW(check_cap(b.schedule, m, identity_order(3), 512));
  try {
    check_cap(b.schedule, m, identity_order(3), 511);
    FAIL() << "no error";
  } catch (const UserError& e) {
    EXPECT_EQ(e.code(), 570) << "BR0570";
    EXPECT_THAT(e.what(), testing::HasSubstr("step 1, 512 bytes: 'p' (256 bytes), 'q' (256 bytes)"));
  }
}

TEST(MemoryModel, OutputThatTheCallerDoesNotOwnHandsItsBytesToNobody) {
  Builder b;
  const BufferId x = b.input("x", {64});
  const BufferId p = b.activation("p", {64}), q = b.activation("q", {64});
  b.output("p", p);
  b.output("q", q);
  b.add("make_p", p, {x});
  b.add("make_q", q, {p});
  const MemoryModel m(b.schedule);
  EXPECT_EQ(m.live(identity_order(2)).peak, 512);
  EXPECT_EQ(m.planned_bytes(identity_order(2)), 512);
}

Schedule parsed(const char* text) { return parse_schedule(text, "test"); }

std::vector<std::string> tenants_of(const Schedule& s, const MemoryModel& m) {
  std::vector<std::string> names;
  for (const Tenant& t : m.tenants()) names.push_back(s.graph[t.storage].name);
  return names;
}

TEST(MemoryModel, ViewsOfOneBufferWrittenSeparatelyAreOneBirthAndOneDeath) {
  const Schedule s = parsed(R"(graph parts
input %x: f32[64]

%other: f32[64] = extern "other" reads(%x)
buffer %both: f32[128]
%left: f32[64] in %both = extern "left" reads(%other)
%middle: f32[64] = extern "middle" reads(%x)
%right: f32[64] in %both at 64 = extern "right" reads(%middle)
%left.1 mutates %left = extern "scale_left" reads(%left) writes(%left.1)
%right.1 mutates %right = extern "scale_right" reads(%right) writes(%right.1)
%y: f32[64] output = extern "use_left" reads(%left.1)
%z: f32[64] output = extern "use_right" reads(%right.1)

output %y
output %z
)");
  const MemoryModel m(s);
  EXPECT_THAT(tenants_of(s, m), testing::UnorderedElementsAre("other", "both", "middle"));
  // other 0..1, both 1..7 (512 bytes, once), middle 2..3
  EXPECT_THAT(m.live(identity_order(8)).bytes, testing::ElementsAre(256, 768, 768, 768, 512, 512, 512, 512));
}

TEST(MemoryModel, RightHalfFirstIsTheBirthThen) {
  const Schedule s = parsed(R"(graph parts
input %x: f32[64]

buffer %both: f32[128]
%left: f32[64] in %both = extern "left" reads(%x)
%right: f32[64] in %both at 64 = extern "right" reads(%x)
%y: f32[64] output = extern "use_left" reads(%left)
%t: f32[64] = extern "temporary" reads(%x)
%z: f32[64] output = extern "use_right" reads(%right, %t)

output %y
output %z
)");
  const MemoryModel m(s);
  EXPECT_THAT(m.live(identity_order(5)).bytes, testing::ElementsAre(512, 512, 512, 768, 768));
  EXPECT_THAT(m.live(test::order_of({3, 1, 0, 2, 4})).bytes, testing::ElementsAre(256, 768, 768, 768, 768));
}

TEST(MemoryModel, MemoryOfTheCallerAndItsVersionsCostNothing) {
  const Schedule s = parsed(R"(graph inputs
input %x: f32[64]

%a: f32[64] = extern "a" reads(%x)
%x.1 mutates %x = extern "grow" reads(%a) writes(%x.1)
%b: f32[64] = extern "b" reads(%x.1, %a)
%x.2 mutates %x.1 = extern "grow" reads(%b) writes(%x.2)

output %x.2
)");
  const MemoryModel m(s);
  EXPECT_THAT(tenants_of(s, m), testing::UnorderedElementsAre("a", "b"));
  EXPECT_THAT(m.live(identity_order(4)).bytes, testing::ElementsAre(256, 256, 512, 256));
}

TEST(MemoryModel, ANewVersionIsTheSameMemory) {
  const Schedule s = parsed(R"(graph versions
input %x: f32[64]

%a: f32[64] = extern "a" reads(%x)
%a.1 mutates %a = extern "change" reads(%a) writes(%a.1)
%a.2 mutates %a.1 = extern "change" reads(%a.1) writes(%a.2)
%y: f32[64] output = extern "y" reads(%a.2)

output %y
)");
  const MemoryModel m(s);
  ASSERT_EQ(m.tenants().size(), 1u);
  EXPECT_THAT(m.live(identity_order(4)).bytes, testing::ElementsAre(256, 256, 256, 256));
}

TEST(MemoryModel, WhatIsInFlightStaysAndSymmetricMemoryUntilRelease) {
  const Schedule s = parsed(R"(graph flight
ranks 2
group @all = [0, 1]

input %x: f32[64]

%a: f32[64] = extern "a" reads(%x)
%g: f32[128] = all_gather @all (%a) as gather
%t: f32[64] = extern "t" reads(%x)
%g.1 mutates %g = wait gather
%c: f32[64] comm(symmetric, @all) = extern "c" reads(%g.1)
%r: f32[64] comm(symmetric, @all) = all_reduce sum @all (%c) as reduce
%r.1 mutates %r = wait reduce
%y: f32[64] output = extern "y" reads(%r.1, %t)
%z: f32[64] output = extern "z" reads(%x)
release reduce

output %y
output %z
)");
  const MemoryModel m(s);
  // a 0..3 (its wait), g 1..4, t 2..7, c 4..9 and r 5..9 (the release)
  EXPECT_THAT(m.live(identity_order(10)).bytes,
              testing::ElementsAre(256, 768, 1024, 1024, 1024, 768, 768, 768, 512, 512));
}

TEST(MemoryModel, CollectiveWithoutWaitHoldsItsMemoryToTheEnd) {
  const Schedule s = parsed(R"(graph open
ranks 2
group @all = [0, 1]

input %x: f32[64]

%a: f32[64] = extern "a" reads(%x)
%g: f32[128] = all_gather @all (%a) as gather
%y: f32[64] output = extern "y" reads(%x)
%z: f32[64] output = extern "z" reads(%x)

output %y
output %z
)");
  const MemoryModel m(s);
  EXPECT_THAT(m.live(identity_order(4)).bytes, testing::ElementsAre(256, 768, 768, 768));
}

// Live bytes worked out from the accesses alone, step by step.
IdVector<Position, std::int64_t> plain_live(const Schedule& s, const MemoryModel& m, OrderView order) {
  IdVector<Position, std::int64_t> bytes(order.ids(), 0);
  const IdVector<TenantId, TenantId> takes = m.takes(order);
  for (const TenantId t : takes.ids()) {
    const Tenant& tenant = m.tenants()[t];
    Position first, last;
    for (const Position step : order.ids()) {
      for (OpId op : ops_of(at(s.nodes, order[step]))) {
        const Effects e = effects(s.graph, op);
        bool touched = std::find(e.inside.begin(), e.inside.end(), tenant.storage) != e.inside.end();
        for (const Access& a : e.accesses) touched |= a.region.storage == tenant.storage;
        if (!touched) continue;
        if (!first.valid()) first = step;
        last = step;
      }
    }
    if (tenant.to_end) last = order.end_id() - 1;
    for (const Position step : IdRange(first, last + 1)) bytes[step] += tenant.bytes;
    if (takes[t].valid()) {
      const std::int64_t from = m.tenants()[takes[t]].bytes;
      bytes[first] -= std::min(from, tenant.bytes);
    }
  }
  return bytes;
}

TEST(MemoryModel, RandomOrdersOfRandomProgramsLiveWithinTheirPlan) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    test::RandomProgram program = test::random_program(seed, 20);
    const MemoryModel m(program.schedule);
    // The same order once of the model of the program as it was, once of the program in that order.
    Schedule shuffled = program.schedule;
    test::shuffle_nodes(shuffled, seed);
    std::map<std::string, NodeId> index;
    for (const NodeId n : nodes_of(program.schedule)) index[name_of(program.schedule, n.index)] = n;
    Order order;
    for (const NodeId n : nodes_of(shuffled)) order.push_back(index.at(name_of(shuffled, n.index)));
    const MemoryModel::Live live = m.live(order);
    EXPECT_EQ(live.bytes, plain_live(program.schedule, m, order));
    EXPECT_LE(live.peak, m.planned_bytes(order));
    EXPECT_EQ(m.plan(order), MemoryModel(shuffled).plan(identity_order(nodes_of(shuffled))));
  }
}

TEST(MemoryModel, StoragesOfAnOperationAreThoseOfItsEffects) {
  using Touched = std::set<std::tuple<int, bool, bool>>;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const test::RandomProgram program = test::random_program(seed, 20);
    const Graph& graph = program.schedule.graph;
    std::vector<StorageTouch> touched;
    for (const OpId k : first_ids<OpId>(count_of(graph.ops))) {
      const Effects e = effects(graph, k);
      Touched want, got;
      for (const Access& a : e.accesses) want.emplace(a.region.storage.index, a.writes(), false);
      for (StorageId s : e.inside) want.emplace(s.index, true, true);
      storages_of(graph, k, touched);
      for (const StorageTouch& t : touched) got.emplace(t.storage.index, t.writes, t.inside);
      EXPECT_EQ(got, want) << graph[k].name;
    }
  }
}

}  // namespace
}  // namespace braid::analysis
