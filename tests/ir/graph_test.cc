#include "ir/graph.h"

#include <gtest/gtest.h>

#include "ir/error.h"
#include "ir/schedule.h"

namespace braid::ir {
namespace {

BufferId view(Graph& g, BufferId base, std::vector<Expr> sizes, Expr offset, std::vector<Expr> strides) {
  Buffer b;
  b.name = "view";
  b.dtype = g[base].dtype;
  b.sizes = std::move(sizes);
  b.layout = NonOwningLayout{base, offset, std::move(strides)};
  return g.add_buffer(std::move(b));
}

TEST(Graph, NamesAreUniquePerTable) {
  Graph g;
  EXPECT_EQ(g[g.add_owned("x", DType::f32, {1})].name, "x");
  EXPECT_EQ(g[g.add_owned("x", DType::f32, {1})].name, "x.1");
  EXPECT_EQ(g[g.add_owned("x", DType::f32, {1})].name, "x.2");
  EXPECT_EQ(g[g.add_owned("x.1", DType::f32, {1})].name, "x.1.1");
  EXPECT_EQ(g[g.add_owned("", DType::f32, {1})].name, "b");
}

TEST(Graph, OutputsKnowTheirProducer) {
  Graph g;
  const BufferId x = g.add_owned("x", DType::f32, {1});
  const OpId op = g.add_op({"op", ExternKernel{}, {x}, {}, {}});
  EXPECT_EQ(g[x].producer, op);
}

TEST(Graph, GroupsOfOneNameMustAgree) {
  Graph g;
  g.ranks = 4;
  EXPECT_EQ(g.add_group("tp", {0, 1}), g.add_group("tp", {0, 1}));
  EXPECT_THROW(g.add_group("tp", {1, 0}), InternalError);
}

TEST(Layout, RowMajorStridesAndContiguity) {
  Graph g;
  const Expr n = g.add_dim("n", {1, 9});
  const std::vector<Expr> sizes = {4, n, 3};
  EXPECT_EQ(contiguous_strides(sizes), (std::vector<Expr>{n * 3, 3, 1}));
  EXPECT_TRUE(is_contiguous(sizes, contiguous_strides(sizes)));
  EXPECT_FALSE(is_contiguous(sizes, std::vector<Expr>{3, 12, 1}));
  EXPECT_TRUE(is_contiguous(std::vector<Expr>{1, 3}, std::vector<Expr>{77, 1}))
      << "the stride of one element does not matter";
}

TEST(Region, OfViewsMutationsAndAliases) {
  Graph g;
  const Expr n = g.add_dim("n", {1, 9});
  const BufferId x = g.add_owned("x", DType::f32, {n, 8});
  const BufferId column = view(g, x, {n, 2}, 4, {8, 1});
  const BufferId inner = view(g, column, {n}, 1, {8});
  const MemoryRegion r = region(g, inner);
  EXPECT_EQ(r.storage, g[x].storage);
  EXPECT_EQ(r.offset, Expr(20));
  EXPECT_EQ(r.begin, Expr(20));
  EXPECT_EQ(r.end, 32 * n - 8);
  const BufferId later = g.add_mutation(g.add_mutation(column, "c1"), "c2");
  EXPECT_EQ(unmutated(g, later), column);
  EXPECT_EQ(region(g, later).offset, Expr(16));
  Storage alias;
  alias.name = "alias";
  alias.bytes = 32 * n;
  alias.alias_of = g[x].storage;
  const StorageId a = g.add_storage(alias);
  EXPECT_EQ(root_storage(g, a), g[x].storage);
}

TEST(Region, NegativeStridesReachBackwards) {
  Graph g;
  const BufferId x = g.add_owned("x", DType::f32, {8});
  const MemoryRegion r = region(g, TensorRef{x, 7, {8}, {-1}});
  EXPECT_EQ(r.begin, Expr(0));
  EXPECT_EQ(r.end, Expr(32));
}

TEST(Region, OverlapIsOnlyDeniedWithProof) {
  Graph g;
  const Expr n = g.add_dim("n", {0, 9});
  const BufferId x = g.add_owned("x", DType::f32, {n + 4}), y = g.add_owned("y", DType::f32, {4});
  EXPECT_FALSE(may_overlap(region(g, x), region(g, y)));
  EXPECT_FALSE(may_overlap(region(g, TensorRef{x, 0, {n}, {1}}), region(g, TensorRef{x, n, {4}, {1}})));
  EXPECT_TRUE(may_overlap(region(g, TensorRef{x, 0, {n}, {1}}), region(g, TensorRef{x, 4, {4}, {1}})));
}

TEST(Region, BuffersWithoutMemoryHaveNone) {
  Graph g;
  Buffer b;
  b.layout = NoneLayout{};
  b.sizes = {1024};
  EXPECT_FALSE(region(g, g.add_buffer(b)).storage.valid());
}

TEST(Constants, OneEntryServesAllRanks) {
  const ConstantData data = own_bytes({std::byte{1}, std::byte{2}});
  EXPECT_TRUE(data.same_on_all_ranks());
  EXPECT_EQ(data.of_rank(3).size(), 2u);
  EXPECT_THROW(ConstantData{}.of_rank(0), InternalError);
}

TEST(ScheduleNodes, ExecutionOrderFlattensGroups) {
  Schedule s;
  std::vector<OpId> ops;
  for (int i = 0; i < 4; ++i) ops.push_back(s.graph.add_op({"op", ExternKernel{}, {}, {}, {}}));
  ScheduleNode fused{
      ScheduleNode::Kind::fused, "f", {}, {ScheduleNode::single(ops[2]), ScheduleNode::single(ops[0])}};
  ScheduleNode group{ScheduleNode::Kind::grouped, "g", {}, {fused, ScheduleNode::single(ops[3])}};
  s.nodes = {group, ScheduleNode::single(ops[1])};
  EXPECT_EQ(execution_order(s), (std::vector<OpId>{ops[2], ops[0], ops[3], ops[1]}));
}

}  // namespace
}  // namespace braid::ir
