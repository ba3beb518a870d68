#include "ir/loop_body.h"

#include <gtest/gtest.h>

#include "ir/error.h"
#include "ir/graph.h"

namespace braid::ir {
namespace {

struct Fixture {
  Graph g;
  BufferId x = g.add_owned("x", DType::f32, {8}), ids = g.add_owned("ids", DType::i64, {8});
  Expr i0 = g.pool->index(0), i1 = g.pool->index(1);
};

TEST(LoopBody, NamesOfInstructionsAreReadBack) {
  for (int c = 0; c < kOpCodeCount; ++c) {
    const auto code = static_cast<OpCode>(c);
    EXPECT_EQ(opcode_from_string(to_string(code)), code);
  }
  EXPECT_FALSE(opcode_from_string("nothing").has_value());
}

TEST(LoopBody, EqualInstructionsAreAddedOnce) {
  Fixture f;
  BodyBuilder b(*f.g.pool);
  const ValueId one = b.load(f.x, DType::f32, f.i0);
  EXPECT_EQ(b.load(f.x, DType::f32, f.i0), one);
  EXPECT_NE(b.load(f.x, DType::f32, f.i0 + 1), one);
  EXPECT_NE(b.constant(DType::f32, 0.0), b.constant(DType::f32, -0.0));
  EXPECT_EQ(b.cast(one, DType::f32), one);
}

TEST(LoopBody, MismatchedOperandsAreRefused) {
  Fixture f;
  BodyBuilder b(*f.g.pool);
  const ValueId x = b.load(f.x, DType::f32, f.i0), k = b.load(f.ids, DType::i64, f.i0);
  EXPECT_THROW(b.binary(OpCode::add, x, k), InternalError);
  EXPECT_THROW(b.where(x, x, x), InternalError);
  EXPECT_THROW(b.constant(DType::f32, std::int64_t{1}), InternalError);
}

TEST(LoopBody, PredicatesYieldBool) {
  Fixture f;
  BodyBuilder b(*f.g.pool);
  const ValueId x = b.load(f.x, DType::f32, f.i0);
  EXPECT_EQ(b.dtype(b.binary(OpCode::lt, x, x)), DType::boolean);
  EXPECT_EQ(b.dtype(b.unary(OpCode::is_nan, x)), DType::boolean);
  EXPECT_EQ(b.dtype(b.unary(OpCode::neg, x)), DType::f32);
}

TEST(LoopBody, FinishDropsDeadInstructionsAndRenumbersValuesInIndices) {
  Fixture f;
  BodyBuilder b(*f.g.pool);
  b.constant(DType::f32, 3.0);  // dead
  const ValueId k = b.load(f.ids, DType::i64, f.i0);
  const LoopBody body = b.finish(b.load(f.x, DType::f32, b.as_index(k) * 2));
  ASSERT_EQ(body.instrs.size(), 2u);
  EXPECT_EQ(to_string(body.instrs[1].index), "2*%0");
  EXPECT_EQ(body.result.index, 1);
}

TEST(LoopBody, InlineReplacesIndicesValuesAndTheAccumulator) {
  Fixture f;
  BodyBuilder inner(*f.g.pool);
  const ValueId k = inner.load(f.ids, DType::i64, f.i0);
  const ValueId v = inner.load(f.x, DType::f32, inner.as_index(k) + f.i1);
  const LoopBody body = inner.finish(inner.binary(OpCode::add, v, inner.acc(DType::f32)));

  BodyBuilder outer(*f.g.pool);
  const ValueId j = outer.load(f.ids, DType::i64, f.i1);
  const ValueId acc = outer.constant(DType::f32, 1.0);
  // The inner body's indices become a value of the outer body and 4*i0.
  const std::vector<Expr> indices = {outer.as_index(j), f.i0 * 4};
  const LoopBody all = outer.finish(outer.inline_body(body, indices, acc));
  ASSERT_EQ(all.instrs.size(), 5u);
  EXPECT_EQ(to_string(all.instrs[2].index), "%0");
  EXPECT_EQ(to_string(all.instrs[3].index), "4*i0 + %2");
  EXPECT_EQ(all.instrs[4].operands[1].index, 1);
}

TEST(LoopBody, SubstituteChangesIndicesOnly) {
  Fixture f;
  BodyBuilder b(*f.g.pool);
  const LoopBody body = b.finish(b.load(f.x, DType::f32, f.i0 + f.i1));
  const LoopBody moved =
      substitute(body, [&](Expr s) { return s == f.i0 ? std::optional(f.i1 * 2) : std::nullopt; });
  EXPECT_EQ(to_string(moved.instrs[0].index), "3*i1");
  EXPECT_FALSE(moved == body);
}

}  // namespace
}  // namespace braid::ir
