#include "passes/plan_memory.h"

#include <gtest/gtest.h>

#include "ir/error.h"
#include "tests/support/build.h"

namespace braid::passes {
namespace {

using namespace ir;
using test::Builder;

const Placement& place_of(const Schedule& s, BufferId b) {
  return s.plan->placements.at(root_storage(s.graph, b));
}

TEST(PlanMemory, StorageThatDiedGivesItsBytes) {
  Builder b;
  const BufferId x = b.input("x", {64});
  const BufferId p = b.activation("p", {64}), q = b.activation("q", {64}), r = b.activation("r", {64});
  b.add("op0", p, {x});
  b.add("op1", q, {p});
  b.add("op2", r, {q});
  b.add("op3", b.result("y", {64}), {r});
  PlanMemory{.in_place = false}.run(b.schedule);
  EXPECT_EQ(b.schedule.plan->arena_bytes, 512);
  EXPECT_EQ(b.schedule.plan->live_peak_bytes, 512);
  EXPECT_EQ(place_of(b.schedule, p).offset, place_of(b.schedule, r).offset);
  EXPECT_NE(place_of(b.schedule, p).offset, place_of(b.schedule, q).offset);
  EXPECT_FALSE(PlanMemory{.in_place = false}.run(b.schedule)) << "the same plan again is no change";
}

TEST(PlanMemory, PointwiseTakesTheBytesOfItsDyingInput) {
  Builder b;
  const BufferId x = b.input("x", {64});
  const BufferId p = b.activation("p", {64}), q = b.activation("q", {64});
  b.add("op0", p, {x});
  b.add("op1", q, {p});
  b.add("op2", b.result("y", {64}), {q});
  PlanMemory{}.run(b.schedule);
  EXPECT_EQ(b.schedule.plan->arena_bytes, 256);
  EXPECT_EQ(b.schedule.plan->live_peak_bytes, 256);
}

TEST(PlanMemory, NoInPlaceWhereAnotherIndexIsRead) {
  Builder b;
  const BufferId x = b.input("x", {8, 8});
  const BufferId p = b.activation("p", {8, 8}), q = b.activation("q", {8, 8});
  b.add("op0", p, {x});
  // q[i0, i1] = p[i1, i0]
  BodyBuilder body(b.pool);
  const LoopBody transposed = body.finish(body.load(p, DType::f32, b.pool.index(1) * 8 + b.pool.index(0)));
  b.emit({"op1", Loops{{8, 8}, 0, ReduceKind::sum, transposed, b.at(q)}, {q}, {}, {}});
  b.add("op2", b.result("y", {8, 8}), {q});
  PlanMemory{}.run(b.schedule);
  EXPECT_EQ(b.schedule.plan->arena_bytes, 512);
}

TEST(PlanMemory, NoInPlaceForAReductionOrAnotherItemSize) {
  Builder b;
  const BufferId x = b.input("x", {8, 64});
  const BufferId p = b.activation("p", {8, 64}), q = b.activation("q", {8}),
                 r = b.activation("r", {8}, DType::f64);
  b.add("op0", p, {x});
  b.reduce("op1", q, p);
  BodyBuilder body(b.pool);
  const LoopBody cast = body.finish(body.cast(body.load(q, DType::f32, b.at(q)), DType::f64));
  b.emit({"op2", Loops{{8}, 0, ReduceKind::sum, cast, b.at(r)}, {r}, {}, {}});
  b.add("op3", b.result("y", {8}, DType::f64), {r});
  PlanMemory{}.run(b.schedule);
  EXPECT_NE(place_of(b.schedule, q).offset, place_of(b.schedule, p).offset);
  EXPECT_NE(place_of(b.schedule, q).offset, place_of(b.schedule, r).offset);
}

TEST(PlanMemory, InputThatIsStillNeededKeepsItsBytes) {
  Builder b;
  const BufferId x = b.input("x", {64});
  const BufferId p = b.activation("p", {64}), q = b.activation("q", {64});
  b.add("op0", p, {x});
  b.add("op1", q, {p});
  b.add("op2", b.result("y", {64}), {q, p});
  PlanMemory{}.run(b.schedule);
  EXPECT_EQ(b.schedule.plan->arena_bytes, 512);
}

TEST(PlanMemory, ViewsExtendTheirBase) {
  Builder b;
  const BufferId x = b.input("x", {64});
  const BufferId p = b.activation("p", {64}), q = b.activation("q", {64});
  Buffer view;
  view.name = "tail";
  view.sizes = {16};
  view.layout = NonOwningLayout{p, 48, {1}};
  const BufferId tail = b.graph.add_buffer(view);
  b.add("op0", p, {x});
  b.add("op1", q, {x});
  b.add("op2", b.result("y", {64}), {q});
  b.add("op3", b.result("z", {16}), {tail});
  PlanMemory{}.run(b.schedule);
  EXPECT_EQ(place_of(b.schedule, p).last_step, 3);
  EXPECT_EQ(b.schedule.plan->arena_bytes, 512);
}

TEST(PlanMemory, CommunicationMemoryIsHeldUntilTheReleaseAndReusedAfterIt) {
  Builder b;
  b.graph.ranks = 2;
  const GroupId g = b.graph.add_group("world", {0, 1});
  const BufferId x = b.input("x", {64});
  const BufferId c = b.comm("c", {64}, g), d = b.comm("d", {64}, g);
  b.add("op0", c, {x});
  const BufferId c1 = b.all_reduce("ar0", c, g);  // steps 1, 2, 3
  std::swap(b.schedule.nodes[2], b.schedule.nodes[3]);
  b.add("op4", d, {x});
  std::swap(b.schedule.nodes[2], b.schedule.nodes[3]);
  b.add("op5", b.result("y", {64}), {c1});
  const BufferId d1 = b.all_reduce("ar1", d, g);
  b.add("op9", b.result("z", {64}), {d1});
  PlanMemory{}.run(b.schedule);
  EXPECT_EQ(place_of(b.schedule, c).space, MemorySpace::comm);
  EXPECT_EQ(place_of(b.schedule, c).last_step, 5);
  EXPECT_EQ(b.schedule.plan->comm_bytes, 512) << "c is read at step 5, d is born at step 4";
  // Without the late reader the release at step 3 is the end, and d takes the slot.
  b.schedule.nodes.erase(b.schedule.nodes.begin() + 5);
  PlanMemory{}.run(b.schedule);
  EXPECT_EQ(place_of(b.schedule, c).last_step, 3);
  EXPECT_EQ(b.schedule.plan->comm_bytes, 256);
  // A collective without a release never gives its memory back.
  b.schedule.nodes.erase(b.schedule.nodes.begin() + 3);
  PlanMemory{}.run(b.schedule);
  EXPECT_EQ(b.schedule.plan->comm_bytes, 512);
}

TEST(PlanMemory, DynamicSizesArePlannedAtTheirBound) {
  Builder b;
  const Expr n = b.graph.add_dim("n", {1, 100});
  const BufferId x = b.input("x", {n, 16});
  const BufferId p = b.activation("p", {n, 16});
  b.add("op0", p, {x});
  b.add("op1", b.result("y", {n, 16}), {p});
  PlanMemory{}.run(b.schedule);
  EXPECT_EQ(b.schedule.plan->arena_bytes, 6400);
}

TEST(PlanMemory, BufferInsideOfAFusedNodeGetsNoMemory) {
  Builder b;
  const BufferId x = b.input("x", {8, 64});
  const BufferId p = b.activation("p", {8, 64}), m = b.activation("m", {8});
  const OpId op0 = b.add("op0", p, {x});
  const OpId op1 = b.reduce("op1", m, p);
  const OpId op2 = b.add("op2", b.result("y", {8, 64}), {p, m});
  ScheduleNode node{ScheduleNode::Kind::fused, "fused", {}, {}};
  for (OpId op : {op0, op1, op2}) node.members.push_back(ScheduleNode::single(op));
  b.schedule.nodes = {node};
  PlanMemory{}.run(b.schedule);
  EXPECT_EQ(b.schedule.plan->arena_bytes, 0);
  EXPECT_TRUE(b.schedule.plan->placements.empty());
}

TEST(PlanMemory, AlignmentMustBeAPowerOfTwo) {
  Builder b;
  EXPECT_THROW(PlanMemory{.arena_alignment = 48}.run(b.schedule), UserError);
  EXPECT_THROW(PlanMemory{.comm_alignment = 128}.run(b.schedule), UserError);
}

}  // namespace
}  // namespace braid::passes
