#include "ir/effects.h"

#include <gtest/gtest.h>

namespace braid::ir {
namespace {

LoopBody copy_of(Graph& g, BufferId from, Expr index) {
  BodyBuilder b(*g.pool);
  return b.finish(b.load(from, g[from].dtype, index));
}

OpId copy(Graph& g, BufferId from, BufferId to, Expr n) {
  const Expr i = g.pool->index(0);
  return g.add_op({"copy", Loops{{n}, 0, ReduceKind::sum, copy_of(g, from, i), i}, {to}, {}, {}});
}

BufferId view(Graph& g, BufferId base, std::vector<Expr> sizes, Expr offset, std::vector<Expr> strides) {
  Buffer b;
  b.name = "view";
  b.sizes = std::move(sizes);
  b.layout = NonOwningLayout{base, offset, std::move(strides)};
  return g.add_buffer(std::move(b));
}

TEST(Effects, LoopReadsItsLoadsAndWritesItsOutputWithExactIndices) {
  Graph g;
  const BufferId x = g.add_owned("x", DType::f32, {8}, StorageKind::input),
                 y = g.add_owned("y", DType::f32, {8});
  const Effects e = effects(g, copy(g, x, y, 8));
  ASSERT_EQ(e.accesses.size(), 2u);
  EXPECT_EQ(e.accesses[0].buffer, x);
  EXPECT_EQ(e.accesses[0].kind, AccessKind::read);
  EXPECT_EQ(to_string(e.accesses[0].dep->index), "i0");
  EXPECT_EQ(e.accesses[1].kind, AccessKind::write);
  EXPECT_EQ(e.accesses[1].region.end, Expr(32));
  EXPECT_FALSE(e.barrier);
}

TEST(Effects, MutationReadsAndModifies) {
  Graph g;
  const BufferId x = g.add_owned("x", DType::f32, {8}, StorageKind::input),
                 y = g.add_owned("y", DType::f32, {8});
  const Effects e = effects(g, copy(g, x, g.add_mutation(y, "y.1"), 8));
  EXPECT_EQ(e.accesses[1].kind, AccessKind::reads_modify);
  EXPECT_EQ(e.accesses[1].region.storage, g[y].storage);
}

TEST(Effects, CollectiveStaysInFlightUntilWaitAndRelease) {
  Graph g;
  g.ranks = 2;
  const GroupId group = g.add_group("all", {0, 1});
  const BufferId x = g.add_owned("x", DType::f32, {8}, StorageKind::comm);
  const BufferId r = g.add_owned("r", DType::f32, {8}, StorageKind::comm);
  CollectiveKernel k;
  k.group = group;
  k.inputs = {whole(g, x)};
  k.outputs = {whole(g, r)};
  const OpId start = g.add_op({"start", k, {r}, {}, {}});
  const OpId wait = g.add_op({"wait", WaitKernel{start}, {g.add_mutation(r, "done")}, {}, {}});
  const OpId release = g.add_op({"release", ReleaseKernel{start}, {}, {}, {}});
  const Effects s = effects(g, start), w = effects(g, wait), e = effects(g, release);
  EXPECT_TRUE(s.accesses[0].by_peers && s.accesses[1].by_peers);
  EXPECT_EQ(s.comm[0].phase, CommPhase::start);
  EXPECT_EQ(w.accesses[1].kind, AccessKind::reads_modify);
  EXPECT_EQ(w.after, std::vector<OpId>{start});
  EXPECT_EQ(e.accesses.size(), 2u);  // pins the input and the symmetric output
  EXPECT_FALSE(e.accesses[0].writes());
  // A later writer of the input comes after the release; a later reader does not depend on it.
  const BufferId z = g.add_owned("z", DType::f32, {8});
  const OpId writer = copy(g, z, g.add_mutation(x, "x.1"), 8), reader = copy(g, x, z, 8);
  EXPECT_TRUE(depend(g, release, e, writer, effects(g, writer)));
  EXPECT_FALSE(depend(g, release, e, reader, effects(g, reader)));
}

TEST(Effects, RegionShowsOnlyWhatIsOutside) {
  Graph g;
  const BufferId x = g.add_owned("x", DType::f32, {8}, StorageKind::input),
                 t = g.add_owned("t", DType::f32, {8});
  const BufferId y = g.add_owned("y", DType::f32, {8});
  const BufferId u = g.add_owned("u", DType::f32, {8});
  const OpId a = copy(g, x, t, 8), b = copy(g, t, u, 8);
  RegionKernel k;
  k.operands = {x};
  k.regions = {{{a, b}, {u}}};
  const OpId op = g.add_op({"call", k, {y}, {}, {}});
  const Effects e = effects(g, op);
  for (const Access& access : e.accesses) EXPECT_TRUE(access.buffer == x || access.buffer == y);
  EXPECT_EQ(e.inside, (std::vector<StorageId>{g[t].storage, g[u].storage}));
  EXPECT_TRUE(contains(g, k, a));
  EXPECT_FALSE(contains(g, k, op));
}

TEST(Effects, BarrierDependsOnEverything) {
  Graph g;
  const BufferId x = g.add_owned("x", DType::f32, {8}, StorageKind::input),
                 y = g.add_owned("y", DType::f32, {8});
  const OpId c = copy(g, x, y, 8);
  ExternKernel k;
  k.barrier = true;
  const OpId b = g.add_op({"unknown", k, {}, {}, {}});
  EXPECT_TRUE(depend(g, c, effects(g, c), b, effects(g, b)));
}

TEST(Overlap, InterleavedSlicesOfOneTensorAreDisjoint) {
  Graph g;
  const Expr n = g.add_dim("n", {1, 64});
  const BufferId base = g.add_owned("base", DType::f32, {n, 12, 64});
  const BufferId left = view(g, base, {n, 12, 32}, 0, {768, 64, 1});
  const BufferId right = view(g, base, {n, 12, 32}, 32, {768, 64, 1});
  const BufferId middle = view(g, base, {n, 12, 2}, 31, {768, 64, 1});
  EXPECT_FALSE(may_overlap(g, whole(g, left), whole(g, right)));
  EXPECT_TRUE(may_overlap(g, whole(g, left), whole(g, middle)));
  EXPECT_TRUE(may_overlap(g, whole(g, right), whole(g, middle)));
  EXPECT_TRUE(may_overlap(g, whole(g, base), whole(g, right)));
}

TEST(Overlap, SlicesOfADynamicRowAreDisjoint) {
  Graph g;
  const Expr past = g.add_dim("past", {0, 512});
  const BufferId base = g.add_owned("base", DType::f32, {12, past + 1, 64});
  const BufferId old = view(g, base, {12, past, 64}, 0, {(past + 1) * 64, 64, 1});
  const BufferId fresh = view(g, base, {12, 1, 64}, past * 64, {(past + 1) * 64, 64, 1});
  EXPECT_FALSE(may_overlap(g, whole(g, old), whole(g, fresh)));
}

}  // namespace
}  // namespace braid::ir
