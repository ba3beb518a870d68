#include "passes/dead_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/build.h"

namespace braid::passes {
namespace {

using namespace ir;
using test::Builder;
using ::testing::ElementsAre;

std::vector<std::string> names(const Schedule& s) {
  std::vector<std::string> out;
  for (OpId op : execution_order(s)) out.push_back(s.graph[op].name);
  return out;
}

TEST(DeadCode, DropsChainsThatNobodyReads) {
  Builder b;
  const BufferId x = b.input("x", {8}), p = b.activation("p", {8}), q = b.activation("q", {8}),
                 r = b.activation("r", {8});
  b.add("used", p, {x});
  b.add("dead0", q, {p});
  b.add("dead1", r, {q});
  b.add("last", b.result("y", {8}), {p});
  EXPECT_TRUE(DeadCode{}.run(b.schedule));
  EXPECT_THAT(names(b.schedule), ElementsAre("used", "last"));
  EXPECT_EQ(b.graph.ops.size(), 2u);
  EXPECT_EQ(b.graph.buffers.size(), 3u);
  EXPECT_EQ(b.graph.storages.size(), 3u);
  EXPECT_FALSE(DeadCode{}.run(b.schedule));
}

TEST(DeadCode, KeepsCollectivesAndWhatTheyRead) {
  Builder b;
  b.graph.ranks = 2;
  const GroupId g = b.graph.add_group("world", {0, 1});
  const BufferId x = b.input("x", {8}), c = b.comm("c", {8}, g), d = b.activation("d", {8});
  b.add("fill", c, {x});
  const BufferId done = b.all_reduce("ar", c, g);
  b.add("dead", d, {done});
  EXPECT_TRUE(DeadCode{}.run(b.schedule));
  EXPECT_THAT(names(b.schedule), ElementsAre("fill", "ar", "ar_wait", "ar_release"));
}

TEST(DeadCode, KeepsMutationsOfTheCallersMemoryAndOpaqueKernelsWithoutResults) {
  Builder b;
  const BufferId x = b.input("x", {8}), w = b.input("w", {8});
  b.add("store", b.graph.add_mutation(w, "w1"), {x});
  ExternKernel trace;
  trace.callee = "trace";
  trace.reads = {whole(b.graph, x)};
  b.emit({"trace", trace, {}, {}, {}});
  EXPECT_FALSE(DeadCode{}.run(b.schedule));
  EXPECT_THAT(names(b.schedule), ElementsAre("store", "trace"));
}

TEST(DeadCode, KeepsThePartsOfWhatIsRead) {
  Builder b;
  const BufferId x = b.input("x", {8}), base = b.activation("base", {16});
  for (int k = 0; k < 2; ++k) {
    Buffer view;
    view.name = "part";
    view.sizes = {8};
    view.layout = NonOwningLayout{base, 8 * k, {1}};
    b.add("op", b.graph.add_buffer(view), {x});
  }
  b.add("all", b.result("y", {16}), {base});
  EXPECT_FALSE(DeadCode{}.run(b.schedule));
}

TEST(DeadCode, OverwrittenVersionThatNobodyReadIsDead) {
  Builder b;
  const BufferId x = b.input("x", {8}), p = b.activation("p", {8});
  b.add("first", p, {x});
  ExternKernel fill;
  fill.callee = "fill";
  fill.writes = {whole(b.graph, p)};  // writes all of it, not a new version of it
  b.emit({"second", fill, {p}, {}, {}});
  b.add("last", b.result("y", {8}), {p});
  EXPECT_TRUE(DeadCode{}.run(b.schedule));
  EXPECT_THAT(names(b.schedule), ElementsAre("second", "last"));
}

TEST(DeadCode, FusedNodeLosesItsDeadMember) {
  Builder b;
  const BufferId x = b.input("x", {8}), p = b.activation("p", {8});
  const OpId dead = b.add("dead", p, {x}), live = b.add("live", b.result("y", {8}), {x});
  b.schedule.nodes = {
      {ScheduleNode::Kind::fused, "both", {}, {ScheduleNode::single(dead), ScheduleNode::single(live)}}};
  EXPECT_TRUE(DeadCode{}.run(b.schedule));
  ASSERT_EQ(b.schedule.nodes.size(), 1u);
  EXPECT_EQ(b.schedule.nodes[0].kind, ScheduleNode::Kind::single);
}

}  // namespace
}  // namespace braid::passes
