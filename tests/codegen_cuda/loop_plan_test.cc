#include "codegen/cuda/loop_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/cuda/pack_rule.h"
#include "tests/support/build.h"

namespace braid::codegen::cuda {
namespace {

using ir::BufferId;
using ir::DType;
using ir::Expr;
using ir::LoopBody;
using ir::OpId;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Held = LoopPlan::Held;

constexpr std::int64_t kPortable = 97 * 1024;

struct Loop : test::Builder {
  Expr i(std::size_t k) { return pool.index(k); }
  Expr dim(const char* name, std::int64_t most) { return graph.add_dim(name, {1, most}); }
  BufferId view(const std::string& name, BufferId base, std::vector<Expr> sizes, Expr offset,
                std::vector<Expr> strides) {
    ir::Buffer buffer{
        name, graph[base].dtype, std::move(sizes), ir::NonOwningLayout{base, offset, std::move(strides)}, {},
        {}};
    return graph.add_buffer(std::move(buffer));
  }
  // y[i0, ...] = x[index]
  OpId copy(BufferId x, Expr index, BufferId y) {
    ir::BodyBuilder body(pool);
    const LoopBody done = body.finish(body.load(x, graph[x].dtype, index));
    return emit({"copy", ir::Loops{graph[y].sizes, 0, ir::ReduceKind::sum, done, at(y)}, {y}, {}, {}});
  }
  LoopPlan fused(const std::vector<OpId>& ops, const std::vector<BufferId>& local = {}) {
    const auto node = ir::analyse_fused(graph, ops);
    if (!node) throw std::runtime_error("not a fused node");
    return plan_loops(graph, *node, local, kPortable);
  }
};

TEST(PackRule, StepsAreGroupedByWhatVaries) {
  Loop l;
  const Expr n = l.dim("n", 64);
  const Expr e = l.i(0) * n + l.i(0) + ir::floor_div(l.i(1), 4) * 16 + l.i(2) + 8;
  EXPECT_THAT(*steps_beside(e, l.i(2)), testing::UnorderedElementsAre(n + 1, Expr(16), Expr(8)));
  EXPECT_FALSE(steps_beside(l.i(2) * 2, l.i(2)));
  EXPECT_FALSE(steps_beside(l.i(2) + ir::floor_div(l.i(2), 4) * 16, l.i(2)));
  EXPECT_FALSE(steps_beside(l.i(0) * 8, l.i(2)));
}

// Against all values of a dimension.
TEST(PackRule, NeedsWhatSymbolsDoNotProve) {
  Loop l;
  const Expr n = l.dim("n", 64);
  for (std::int64_t a : {0, 1, 2, 4, 6, 8, 12}) {
    for (std::int64_t c : {0, 1, 3, 4, 8, 20}) {
      for (std::int64_t pack : {2, 4, 8}) {
        const Expr step = n * a + c;
        int multiples = 0;
        for (std::int64_t value = 1; value <= 64; ++value) multiples += (value * a + c) % pack == 0 ? 1 : 0;
        std::vector<Expr> needed;
        const bool possible = need_multiples({step}, pack, needed);
        SCOPED_TRACE(ir::to_string(step) + ", pack " + std::to_string(pack));
        EXPECT_EQ(possible, multiples > 0);
        EXPECT_EQ(possible && needed.empty(), multiples == 64);
      }
    }
  }
}

TEST(LoopPlan, FlatPointsMoveSixteenBytes) {
  Loop l;
  const BufferId x = l.input("x", {3, 5, 77}, DType::f16), y = l.result("y", {3, 5, 77}, DType::f16);
  const LoopPlan plan = plan_loops(l.graph, l.add("copy", y, {x}));
  EXPECT_EQ(to_string(plan), "points, packs of 8");
  EXPECT_EQ(plan.outer, std::vector<Expr>{3 * 5 * 77});
  EXPECT_FALSE(plan.whole);
  EXPECT_THAT(plan.multiples, IsEmpty());
}

TEST(LoopPlan, LanesFollowTheStoresOfATransposeAndTilesItsLoads) {
  const auto plan_of = [](std::int64_t rows, std::int64_t columns) {
    Loop l;
    const BufferId x = l.input("x", {columns, rows}), y = l.result("y", {rows, columns});
    return plan_loops(l.graph, l.copy(x, l.i(1) * rows + l.i(0), y));
  };
  const LoopPlan plan = plan_of(32, 64);
  EXPECT_EQ(to_string(plan), "tiles of i1 and i0, packs of 4 along i1");
  EXPECT_TRUE(plan.members[0].packed_store);
  EXPECT_TRUE(plan.members[0].values[0].tiled && plan.members[0].values[0].packed);
  EXPECT_EQ(to_string(plan_of(3, 64)), "points, packs of 4 along i1");  // a tile would be empty
  EXPECT_EQ(to_string(plan_of(33, 65)), "tiles of i1 and i0");
  EXPECT_EQ(to_string(plan_of(33, 64)), "tiles of i1 and i0");  // its loads lie at odd places
}

TEST(LoopPlan, TheLaunchAsksWhatSymbolsDoNotProve) {
  Loop l;
  const Expr rows = l.dim("rows", 100), columns = l.dim("columns", 1000);
  const BufferId x = l.input("x", {rows, columns}, DType::f16), y = l.result("y", {rows}, DType::f16);
  const LoopPlan plan = plan_loops(l.graph, l.reduce("sum", y, x));
  EXPECT_EQ(to_string(plan), "a warp per row, packs of 8, 32 elements per thread in registers");
  EXPECT_THAT(plan.multiples, ElementsAre(columns));
  EXPECT_TRUE(plan.whole);
}

TEST(LoopPlan, RowsAtAPitchHaveATail) {
  Loop l;
  const BufferId x = l.input("x", {6, 80}, DType::f16), y = l.result("y", {6}, DType::f16);
  const BufferId part = l.view("part", x, {6, 77}, 0, {80, 1});
  const LoopPlan plan = plan_loops(l.graph, l.reduce("sum", y, part));
  EXPECT_EQ(plan.pack, 8);
  EXPECT_FALSE(plan.whole);
  // A view that begins in the middle of a pack moves smaller ones.
  const BufferId shifted = l.view("shifted", x, {6, 76}, 4, {80, 1}), z = l.result("z", {6}, DType::f16);
  EXPECT_EQ(plan_loops(l.graph, l.reduce("sum", z, shifted)).pack, 4);
}

TEST(LoopPlan, RowsOfAnOddLengthMoveElementByElement) {
  Loop l;
  const BufferId x = l.input("x", {6, 77}, DType::f16), y = l.result("y", {6}, DType::f16);
  EXPECT_EQ(plan_loops(l.graph, l.reduce("sum", y, x)).pack, 1);
}

TEST(LoopPlan, SumsOverColumnsAreFoldedByThreadsIfThereAreMany) {
  for (std::int64_t columns : {1 << 19, 1 << 10}) {
    Loop l;
    const BufferId x = l.input("x", {100, columns}), y = l.result("y", {columns});
    ir::BodyBuilder body(l.pool);
    const LoopBody load = body.finish(body.load(x, DType::f32, l.i(1) * columns + l.i(0)));
    const OpId op =
        l.emit({"sum", ir::Loops{{columns, 100}, 1, ir::ReduceKind::sum, load, l.i(0)}, {y}, {}, {}});
    EXPECT_EQ(to_string(plan_loops(l.graph, op)),
              columns == 1 << 10 ? "columns, packs of 4" : "points, packs of 4");
  }
  Loop l;  // the neighbours of a sum over rows are its operands, not its results
  const BufferId x = l.input("x", {1 << 17, 1024}, DType::f16), y = l.result("y", {1 << 17}, DType::f16);
  EXPECT_EQ(plan_loops(l.graph, l.reduce("sum", y, x)).shape, LoopPlan::Shape::warp_rows);
}

// The first warp of a block stores a member's results, perhaps in place of data that another member reads.
TEST(LoopPlan, ColumnsWaitBetweenReadingMemoryAndStoring) {
  Loop l;
  const BufferId x = l.activation("x", {100, 1024}), w = l.activation("w", {1024}),
                 s = l.activation("s", {1024}), t = l.activation("t", {1024}), y = l.result("y", {1024});
  ir::BodyBuilder body(l.pool);
  const LoopBody load = body.finish(body.load(x, DType::f32, l.i(1) * 1024 + l.i(0)));
  const OpId sum = l.emit({"sum", ir::Loops{{1024, 100}, 1, ir::ReduceKind::sum, load, l.i(0)}, {s}, {}, {}});
  const LoopPlan plan = l.fused({sum, l.add("t", t, {s}), l.add("y", y, {t, w})});
  EXPECT_EQ(to_string(plan), "columns, packs of 4");
  EXPECT_FALSE(plan.members[0].barrier);  // its threads have met to fold
  EXPECT_FALSE(plan.members[1].barrier);  // reads only what its own thread holds
  EXPECT_TRUE(plan.members[2].barrier);
}

TEST(LoopPlan, ASoftmaxReadsItsRowOnceAndNeedsNoBarrier) {
  Loop l;
  const BufferId x = l.activation("x", {4, 256}), m = l.activation("m", {4}), e = l.activation("e", {4, 256}),
                 s = l.activation("s", {4}), y = l.result("y", {4, 256});
  const std::vector<OpId> ops = {l.reduce("max", m, x, ir::ReduceKind::max), l.add("sub", e, {x, m}),
                                 l.reduce("sum", s, e), l.add("div", y, {e, s})};
  const LoopPlan plan = l.fused(ops, {m, e, s});
  EXPECT_EQ(to_string(plan), "a warp per row, packs of 4, 8 elements per thread in registers");
  EXPECT_EQ(plan.kept_loads.size(), 1u);
  EXPECT_EQ(plan.members[1].held, Held::registers);
  for (const LoopPlan::Member& member : plan.members) EXPECT_FALSE(member.barrier);
  // If the sum is stored, it may lie where lanes still read `x`.
  EXPECT_TRUE(l.fused(ops).members[2].barrier);
}

// A result for each row is no stream.
TEST(LoopPlan, ARootOfASumLeavesItsRowInPacks) {
  Loop l;
  const BufferId x = l.input("x", {4096, 768}, DType::f16), s = l.activation("s", {4096}),
                 y = l.result("y", {4096}, DType::f16);
  const LoopPlan plan = l.fused({l.reduce("sum", s, x), l.add("root", y, {s})}, {s});
  EXPECT_EQ(to_string(plan), "a warp per row, packs of 8, 24 elements per thread in registers");
}

// Few threads with several packs each wait less at barriers, unless there are too few rows.
TEST(LoopPlan, ManyLongRowsHaveSmallBlocks) {
  for (const std::int64_t rows : {16, 4096}) {
    Loop l;
    const BufferId x = l.input("x", {rows, 4096}, DType::f16), y = l.result("y", {rows}, DType::f16);
    EXPECT_EQ(to_string(plan_loops(l.graph, l.reduce("sum", y, x))),
              rows == 16 ? "a block per row, packs of 8, 8 elements per thread in registers"
                         : "a block per row, packs of 8, 32 elements per thread in registers");
  }
}

// Each index is loaded once for a row, although neighbours of an index are its neighbours in memory.
TEST(LoopPlan, GatheredRowsAreReadAlongTheRow) {
  Loop l;
  const BufferId x = l.input("x", {1000, 768}, DType::f16), at = l.input("at", {128}, DType::i64),
                 y = l.result("y", {128, 768}, DType::f16);
  ir::BodyBuilder body(l.pool);
  const ir::ValueId row = body.load(at, DType::i64, l.i(0));
  const LoopBody gather = body.finish(body.load(x, DType::f16, body.as_index(row) * 768 + l.i(1)));
  const OpId op =
      l.emit({"gather", ir::Loops{{128, 768}, 0, ir::ReduceKind::sum, gather, l.at(y)}, {y}, {}, {}});
  EXPECT_EQ(to_string(plan_loops(l.graph, op)), "points, packs of 8 along i1");
}

// Rows that differ from lane to lane lie apart, although their index names no dimension: two such loads cost
// more than the store across.
TEST(LoopPlan, GatheredRowsLieApart) {
  Loop l;
  const BufferId x = l.input("x", {1000, 768}, DType::f16), at = l.input("at", {128}, DType::i64),
                 y = l.result("y", {768, 128}, DType::f16);
  ir::BodyBuilder body(l.pool);
  const ir::ValueId row = body.load(at, DType::i64, l.i(0));
  const ir::ValueId a = body.load(x, DType::f16, body.as_index(row) * 768 + l.i(1)),
                    b = body.load(x, DType::f16, body.as_index(row) * 384 + l.i(1));
  const LoopBody sum = body.finish(body.binary(ir::OpCode::add, a, b));
  const OpId op =
      l.emit({"sum", ir::Loops{{128, 768}, 0, ir::ReduceKind::sum, sum, l.i(0) + l.i(1) * 128}, {y}, {}, {}});
  EXPECT_EQ(plan_loops(l.graph, op).lane, 1u);
}

// y[image, channel, row, column] = max over a window of x[image, row, column, channel]: nine loads, one
// store.
TEST(LoopPlan, APoolRunsAlongTheDimensionThatItsWindowsShare) {
  Loop l;
  const BufferId x = l.input("x", {8, 56, 56, 64}, DType::f16),
                 y = l.result("y", {8, 64, 54, 54}, DType::f16);
  ir::BodyBuilder body(l.pool);
  const Expr element = ((l.i(0) * 56 + l.i(2) + l.i(4)) * 56 + l.i(3) + l.i(5)) * 64 + l.i(1);
  const LoopBody window = body.finish(body.load(x, DType::f16, element));
  const OpId op = l.emit(
      {"pool", ir::Loops{{8, 64, 54, 54, 3, 3}, 2, ir::ReduceKind::max, window, l.at(y)}, {y}, {}, {}});
  EXPECT_EQ(to_string(plan_loops(l.graph, op)), "points, packs of 8 along i1");
}

TEST(LoopPlan, RowsTooLongForRegistersAreShared) {
  Loop l;
  const BufferId x = l.activation("x", {4, 20000}), e = l.activation("e", {4, 20000}),
                 s = l.activation("s", {4});
  const LoopPlan plan = l.fused({l.add("copy", e, {x}), l.reduce("sum", s, e)});
  EXPECT_EQ(to_string(plan), "a block per row, packs of 4");
  EXPECT_EQ(plan.members[0].held, Held::shared);
  EXPECT_EQ(plan.shared_bytes, Expr(80000));
}

TEST(LoopPlan, ReadingAnotherThreadsElementTakesABarrierAndSharedMemory) {
  Loop l;
  const BufferId x = l.activation("x", {4, 8}), p = l.activation("p", {4, 8}), y = l.result("y", {4, 8});
  const LoopPlan plan = l.fused({l.add("one", p, {x}), l.copy(p, l.i(0) * 8 + (Expr(7) - l.i(1)), y)});
  EXPECT_EQ(plan.members[0].held, Held::shared);
  EXPECT_TRUE(plan.members[1].barrier);
}

// The memory plan may put `y` where the sum reads.
TEST(LoopPlan, ARowThatMayReplaceWhatOtherThreadsReadTakesABarrier) {
  const auto barrier = [](const auto& operand) {
    Loop l;
    const BufferId x = l.activation("x", {4, 16}), z = l.input("z", {4, 8}), s = l.activation("s", {4});
    const BufferId y = l.activation("y", {4, 8});
    ir::BodyBuilder body(l.pool);
    const LoopBody load = operand(l, body, x);
    const OpId sum = l.emit({"sum", ir::Loops{{4, 8}, 1, ir::ReduceKind::sum, load, l.i(0)}, {s}, {}, {}});
    return l.fused({sum, l.add("y", y, {z, s})}, {s}).members[1].barrier;
  };
  const auto at = [](Loop& l, ir::BodyBuilder& body, BufferId buffer, Expr i1) {
    return body.finish(body.load(buffer, DType::f32, l.i(0) * 8 + i1));
  };
  EXPECT_FALSE(barrier([&](Loop& l, auto& body, BufferId x) { return at(l, body, x, l.i(1)); }));
  EXPECT_TRUE(barrier([&](Loop& l, auto& body, BufferId x) { return at(l, body, x, Expr(7) - l.i(1)); }));
  EXPECT_TRUE(barrier([&](Loop& l, auto& body, BufferId x) {
    return at(l, body, l.view("later", x, {4, 8}, 4, {8, 1}), l.i(1));
  }));
}

}  // namespace
}  // namespace braid::codegen::cuda
