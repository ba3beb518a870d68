#include "ir/fused_loops.h"

#include <gtest/gtest.h>

#include "tests/support/build.h"

namespace braid::ir {
namespace {

using test::Builder;

TEST(FusedLoops, SoftmaxSharesItsRows) {
  Builder b;
  const BufferId x = b.input("x", {4, 8}), m = b.activation("m", {4}), e = b.activation("e", {4, 8});
  const BufferId s = b.activation("s", {4}), y = b.result("y", {4, 8});
  const std::vector<OpId> ops = {b.reduce("max", m, x, ReduceKind::max), b.add("sub", e, {x, m}),
                                 b.reduce("sum", s, e), b.add("div", y, {e, s})};
  const auto fused = analyse_fused(b.graph, ops);
  ASSERT_TRUE(fused);
  EXPECT_EQ(fused->outer, std::vector<Expr>{4});
  for (const FusedLoops::Member& member : fused->members) EXPECT_EQ(member.inner_dims, 1);
}

TEST(FusedLoops, PointwiseLoopsShareEverything) {
  Builder b;
  const BufferId x = b.input("x", {4, 8}), p = b.activation("p", {4, 8});
  const std::vector<OpId> ops = {b.add("one", p, {x}), b.add("two", b.result("y", {4, 8}), {p})};
  const auto fused = analyse_fused(b.graph, ops);
  ASSERT_TRUE(fused);
  EXPECT_EQ(fused->outer.size(), 2u);
}

TEST(FusedLoops, ReadingAcrossTheRowMakesItInner) {
  Builder b;
  const BufferId x = b.input("x", {4, 8}), p = b.activation("p", {4, 8}), y = b.result("y", {4, 8});
  const OpId one = b.add("one", p, {x});
  // y[i0, i1] = p[i0, 7 - i1]
  BodyBuilder body(b.pool);
  const LoopBody reversed =
      body.finish(body.load(p, DType::f32, b.pool.index(0) * 8 + (Expr(std::int64_t{7}) - b.pool.index(1))));
  const OpId two = b.emit({"two", Loops{{4, 8}, 0, ReduceKind::sum, reversed, b.at(y)}, {y}, {}, {}});
  const auto fused = analyse_fused(b.graph, std::vector<OpId>{one, two});
  ASSERT_TRUE(fused);
  EXPECT_EQ(fused->outer.size(), 1u);
  const Instr& load = reversed.instrs[0];
  EXPECT_EQ(relation(b.graph, one, two, load, 1), Relation::same_row);
  EXPECT_EQ(relation(b.graph, one, two, load, 2), Relation::other);
  EXPECT_EQ(to_string(*row_index(b.graph, one, two, load, 1)),
            to_string(Expr(std::int64_t{7}) - b.pool.index(1)));
  EXPECT_EQ(row_elements(b.graph, one, 1), Expr(std::int64_t{8}));
}

TEST(FusedLoops, TransposedReadSharesNothing) {
  Builder b;
  const BufferId x = b.input("x", {8, 8}), p = b.activation("p", {8, 8}), y = b.result("y", {8, 8});
  const OpId one = b.add("one", p, {x});
  BodyBuilder body(b.pool);
  const LoopBody transposed = body.finish(body.load(p, DType::f32, b.pool.index(1) * 8 + b.pool.index(0)));
  const OpId two = b.emit({"two", Loops{{8, 8}, 0, ReduceKind::sum, transposed, b.at(y)}, {y}, {}, {}});
  const auto fused = analyse_fused(b.graph, std::vector<OpId>{one, two});
  ASSERT_TRUE(fused);
  EXPECT_TRUE(fused->outer.empty()) << "only one after the other";
}

TEST(FusedLoops, RowBeyondItsEndIsAnotherRow) {
  Builder b;
  const BufferId x = b.input("x", {4, 8}), p = b.activation("p", {5, 8}), y = b.result("y", {4, 8});
  const OpId one =
      b.emit({"one",
              Loops{{5, 8}, 0, ReduceKind::sum, {{{OpCode::constant, DType::f32, {}, 1.0}}, {0}}, b.at(p)},
              {p},
              {},
              {}});
  (void)x;
  BodyBuilder body(b.pool);  // p[i0, i1 + 1] of a row of 8
  const LoopBody shifted = body.finish(body.load(p, DType::f32, b.pool.index(0) * 8 + b.pool.index(1) + 1));
  const OpId two = b.emit({"two", Loops{{4, 8}, 0, ReduceKind::sum, shifted, b.at(y)}, {y}, {}, {}});
  EXPECT_EQ(relation(b.graph, one, two, shifted.instrs[0], 1), Relation::other);
}

TEST(FusedLoops, GatherIsNotARow) {
  Builder b;
  const BufferId ids = b.input("ids", {4}, DType::i64), p = b.activation("p", {8}), y = b.result("y", {4});
  const BufferId x = b.input("x", {8});
  const OpId one = b.add("one", p, {x});
  BodyBuilder body(b.pool);
  const ValueId id = body.load(ids, DType::i64, b.pool.index(0));
  const LoopBody gather = body.finish(body.load(p, DType::f32, body.as_index(body.check_index(id, 8))));
  const OpId two = b.emit({"two", Loops{{4}, 0, ReduceKind::sum, gather, b.at(y)}, {y}, {}, {}});
  EXPECT_EQ(relation(b.graph, one, two, gather.instrs.back(), 0), Relation::other);
}

TEST(FusedLoops, SameBytesWrittenTwiceIsRefused) {
  Builder b;
  const BufferId x = b.input("x", {8}), p = b.activation("p", {8});
  const BufferId p1 = b.graph.add_mutation(p, "p1");
  std::string why;
  EXPECT_FALSE(analyse_fused(b.graph, std::vector<OpId>{b.add("one", p, {x}), b.add("two", p1, {x})}, &why));
  EXPECT_EQ(why, "'one' and 'two' write the same bytes");
}

TEST(FusedLoops, OverwritingWhatAnotherOuterPointStillReadsIsNotParallel) {
  Builder b;
  const BufferId p = b.activation("p", {8}), q = b.activation("q", {8});
  BodyBuilder body(b.pool);  // q[i0] = p[7 - i0]
  const LoopBody reversed = body.finish(body.load(p, DType::f32, Expr(std::int64_t{7}) - b.pool.index(0)));
  const OpId one = b.emit({"one", Loops{{8}, 0, ReduceKind::sum, reversed, b.at(q)}, {q}, {}, {}});
  const OpId two = b.add("two", b.graph.add_mutation(p, "p1"), {q});
  EXPECT_TRUE(analyse_fused(b.graph, std::vector<OpId>{one, two})->outer.empty());
  // The same element: each outer point for itself.
  const OpId three = b.add("three", b.activation("r", {8}), {p});
  const OpId four = b.add("four", b.graph.add_mutation(p, "p2"), {q});
  EXPECT_EQ(analyse_fused(b.graph, std::vector<OpId>{three, four})->outer.size(), 1u);
}

TEST(FusedLoops, LocalBuffersAreThoseThatNobodyElseTouches) {
  Builder b;
  const BufferId x = b.input("x", {4, 8}), m = b.activation("m", {4}), e = b.activation("e", {4, 8});
  const OpId one = b.reduce("one", m, x), two = b.add("two", e, {x, m});
  b.add("three", b.result("y", {4, 8}), {e});
  ScheduleNode node{
      ScheduleNode::Kind::fused, "fused", {}, {ScheduleNode::single(one), ScheduleNode::single(two)}};
  b.schedule.nodes = {node, b.schedule.nodes[2]};
  EXPECT_EQ(local_buffers(b.schedule, b.schedule.nodes[0]), std::vector<BufferId>{m});
}

TEST(InPlace, RowThatEarlierMembersReadMayBeOverwrittenByTheLast) {
  Builder b;
  const BufferId x = b.activation("x", {4, 8}), m = b.activation("m", {4}), y = b.activation("y", {4, 8});
  const OpId one = b.reduce("one", m, x), two = b.add("two", y, {x, m});
  const ScheduleNode node{
      ScheduleNode::Kind::fused, "fused", {}, {ScheduleNode::single(one), ScheduleNode::single(two)}};
  EXPECT_TRUE(may_reuse_in_place(b.graph, node, root_storage(b.graph, x), root_storage(b.graph, y)));
  // Read once more after it was overwritten.
  const BufferId z = b.activation("z", {4, 8});
  ScheduleNode longer = node;
  longer.members.push_back(ScheduleNode::single(b.add("three", z, {x, y})));
  EXPECT_FALSE(may_reuse_in_place(b.graph, longer, root_storage(b.graph, x), root_storage(b.graph, y)));
  EXPECT_TRUE(may_reuse_in_place(b.graph, longer, root_storage(b.graph, x), root_storage(b.graph, z)));
}

}  // namespace
}  // namespace braid::ir
