#include "ir/dependencies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/build.h"

namespace braid::ir {
namespace {

using test::Builder;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// "0 memory read_after_write of 'x'" for each predecessor.
std::vector<std::string> predecessors(const Builder& b, int node) {
  const Dependencies d = find_dependencies(b.schedule);
  std::vector<std::string> out;
  for (const Dependency& p : d.predecessors(node))
    out.push_back(std::to_string(p.node) + " " + to_string(b.graph, p));
  return out;
}

TEST(Dependencies, ReadAfterWriteOfALoopIsAMemoryDep) {
  Builder b;
  const BufferId x = b.input("x", {64}), p = b.activation("p", {64});
  b.add("op0", p, {x});
  b.add("op1", b.result("y", {64}), {p});
  EXPECT_THAT(predecessors(b, 0), IsEmpty());
  EXPECT_THAT(predecessors(b, 1), ElementsAre("0 memory read_after_write of 'p'"));
  const Dependencies d = find_dependencies(b.schedule);
  ASSERT_EQ(d.successors(0).size(), 1u);
  EXPECT_EQ(d.successors(0)[0].node, 1);
}

TEST(Dependencies, GemmReadsItsOperandsAsAWhole) {
  Builder b;
  const BufferId x = b.input("x", {4, 4}), w = b.input("w", {4, 4}), p = b.activation("p", {4, 4});
  b.add("op0", p, {x});
  b.gemm("op1", b.result("y", {4, 4}), p, w);
  EXPECT_THAT(predecessors(b, 1), ElementsAre("0 star read_after_write of 'p'"));
}

TEST(Dependencies, ReadersOfAVersionComeBeforeItsMutation) {
  Builder b;
  const BufferId x = b.input("x", {64}), p = b.activation("p", {64});
  b.add("op0", p, {x});
  b.add("op1", b.result("y", {64}), {p});
  const BufferId p1 = b.graph.add_mutation(p, "p1");
  b.add("op2", p1, {x});
  b.add("op3", b.result("z", {64}), {p1});
  EXPECT_THAT(predecessors(b, 2),
              ElementsAre("0 star read_after_write of 'p1'", "0 star write_after_write of 'p1'",
                          "1 weak write_after_read of 'p1'"));
  EXPECT_THAT(predecessors(b, 3), ElementsAre("2 memory read_after_write of 'p1'"));
}

TEST(Dependencies, PartsOfABufferAreIndependentAndTheWholeNeedsAll) {
  Builder b;
  const BufferId x = b.input("x", {16}), base = b.activation("base", {32});
  std::vector<BufferId> parts;
  for (int k = 0; k < 2; ++k) {
    Buffer view;
    view.name = "part";
    view.sizes = {16};
    view.layout = NonOwningLayout{base, 16 * k, {1}};
    parts.push_back(b.graph.add_buffer(view));
    b.add("op", parts.back(), {x});
  }
  b.add("all", b.result("y", {32}), {base});
  b.add("second", b.result("z", {16}), {parts[1]});
  EXPECT_THAT(predecessors(b, 1), IsEmpty());
  EXPECT_THAT(predecessors(b, 2),
              ElementsAre("0 memory read_after_write of 'base'", "1 memory read_after_write of 'base'"));
  EXPECT_THAT(predecessors(b, 3), ElementsAre("1 memory read_after_write of 'part.1'"));
}

TEST(Dependencies, InterleavedColumnsAreIndependent) {
  Builder b;
  const BufferId x = b.input("x", {4, 8}), base = b.activation("base", {4, 16});
  for (int k = 0; k < 2; ++k) {
    Buffer view;
    view.name = "columns";
    view.sizes = {4, 8};
    view.layout = NonOwningLayout{base, 8 * k, {16, 1}};
    b.add("op", b.graph.add_buffer(view), {x});
  }
  EXPECT_THAT(predecessors(b, 1), IsEmpty());
}

TEST(Dependencies, PartsOfDynamicSizeAreToldApart) {
  Builder b;
  const Expr n = b.graph.add_dim("n", {1, 64});
  const BufferId x = b.input("x", {n}), base = b.activation("base", {n * 2});
  for (int k = 0; k < 2; ++k) {
    Buffer view;
    view.name = "part";
    view.sizes = {n};
    view.layout = NonOwningLayout{base, n * k, {1}};
    b.add("op", b.graph.add_buffer(view), {x});
  }
  b.add("all", b.result("y", {n * 2}), {base});
  EXPECT_THAT(predecessors(b, 1), IsEmpty());
  EXPECT_EQ(predecessors(b, 2).size(), 2u);
}

TEST(Dependencies, CollectiveIsAChainOfStartWaitRelease) {
  Builder b;
  b.graph.ranks = 2;
  const GroupId g = b.graph.add_group("world", {0, 1});
  const BufferId x = b.input("x", {64}), c = b.comm("c", {64}, g);
  b.add("op0", c, {x});
  const BufferId done = b.all_reduce("ar", c, g);  // 1, 2, 3
  b.add("op4", b.result("y", {64}), {done});
  const BufferId again = b.graph.add_mutation(done, "again");
  b.add("op5", again, {x});
  const Dependencies d = find_dependencies(b.schedule);
  EXPECT_TRUE(d.is_ancestor(1, 2));
  EXPECT_TRUE(d.is_ancestor(2, 4));
  EXPECT_FALSE(d.is_ancestor(3, 4)) << "reading the result does not wait for peers";
  EXPECT_TRUE(d.is_ancestor(3, 5)) << "writing these bytes does";
}

TEST(Dependencies, ChannelPolicyOrdersStarts) {
  Builder b;
  b.graph.ranks = 2;
  const GroupId g = b.graph.add_group("one", {0, 1}), h = b.graph.add_group("two", {0, 1});
  const BufferId c = b.comm("c", {64}, g), d = b.comm("d", {64}, h);
  b.all_reduce("ar0", c, g);  // 0, 1, 2
  b.all_reduce("ar1", d, h);  // 3, 4, 5
  EXPECT_THAT(predecessors(b, 3), ElementsAre("0 weak channel_order"));
  b.schedule.channels = ChannelPolicy::communicator;
  EXPECT_THAT(predecessors(b, 3), IsEmpty());
}

TEST(Dependencies, BarrierIsOrderedAgainstEverything) {
  Builder b;
  const BufferId x = b.input("x", {64});
  b.add("op0", b.result("y", {64}), {x});
  ExternKernel k;
  k.barrier = true;
  b.emit({"fence", k, {}, {}, {}});
  b.add("op2", b.result("z", {64}), {x});
  EXPECT_THAT(predecessors(b, 1), ElementsAre("0 star barrier"));
  EXPECT_THAT(predecessors(b, 2), ElementsAre("1 star barrier"));
}

TEST(Dependencies, OrderThatBreaksOneIsNamed) {
  Builder b;
  const BufferId x = b.input("x", {64}), p = b.activation("p", {64});
  b.add("op0", p, {x});
  b.add("op1", b.result("y", {64}), {p});
  const Dependencies d = find_dependencies(b.schedule);
  EXPECT_FALSE(d.violation(std::vector<int>{0, 1}));
  const auto v = d.violation(std::vector<int>{1, 0});
  ASSERT_TRUE(v);
  EXPECT_EQ(v->before, 0);
  EXPECT_EQ(v->after, 1);
}

// Many readers and writers of parts of one storage: the number of edges stays near-linear.
TEST(Dependencies, EdgesGrowLinearly) {
  const auto edges = [](int n) {
    Builder b;
    const BufferId x = b.input("x", {16}), base = b.activation("base", {16 * n});
    BufferId last = x;
    for (int k = 0; k < n; ++k) {
      Buffer view;
      view.name = "part";
      view.sizes = {16};
      view.layout = NonOwningLayout{base, 16 * k, {1}};
      const BufferId part = b.graph.add_buffer(view);
      b.add("op", part, {last});
      last = part;
    }
    const Dependencies d = find_dependencies(b.schedule);
    std::size_t sum = 0;
    for (int k = 0; k < d.size(); ++k) sum += d.predecessors(k).size();
    return sum;
  };
  EXPECT_EQ(edges(2000), 1999u);
}

TEST(Dependencies, AValueWithoutElementsIsReadAfterItIsNamed) {
  Builder b;
  const BufferId x = b.input("x", {0}), p = b.activation("p", {0});
  b.add("op0", p, {x});
  b.add("op1", b.result("y", {0}), {p});
  const BufferId p1 = b.graph.add_mutation(p, "p1");
  b.add("op2", p1, {x});
  b.add("op3", b.result("z", {0}), {p1});
  EXPECT_THAT(predecessors(b, 1), ElementsAre("0 star structure"));
  EXPECT_THAT(predecessors(b, 2), ElementsAre("0 star structure"));
  EXPECT_THAT(predecessors(b, 3), ElementsAre("2 star structure"));
}

}  // namespace
}  // namespace braid::ir
