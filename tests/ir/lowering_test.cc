#include "ir/lowering.h"

#include <gtest/gtest.h>

#include "ir/error.h"

namespace braid::ir {
namespace {

class LoweringTest : public ::testing::Test {
 protected:
  Graph graph;
  Lowering lowering{graph};

  template <class K>
  std::vector<const K*> kernels() {
    std::vector<const K*> found;
    for (const Operation& op : graph.ops) {
      if (const K* k = op.as<K>()) found.push_back(k);
    }
    return found;
  }
  TensorBox unary(OpCode code, TensorBox x) {
    return lowering.pointwise(
        {x}, [&](BodyBuilder& b, std::span<const ValueId> v) { return b.unary(code, v[0]); });
  }
  TensorBox add(TensorBox x, TensorBox y) {
    return lowering.pointwise(
        {x, y}, [](BodyBuilder& b, std::span<const ValueId> v) { return b.binary(OpCode::add, v[0], v[1]); });
  }
};

TEST_F(LoweringTest, ElementwiseChainsBecomeOneLoop) {
  TensorBox x = lowering.input("x", DType::f32, {4, 8}), bias = lowering.input("bias", DType::f32, {8});
  lowering.output("y", unary(OpCode::tanh, add(x, bias)));
  ASSERT_EQ(graph.ops.size(), 1u);
  const Loops& loops = *graph.ops[0].as<Loops>();
  EXPECT_EQ(to_string(loops.store_index), "8*i0 + i1");
  EXPECT_EQ(to_string(loops.body.instrs[1].index), "i1");
}

TEST_F(LoweringTest, SplittingAndMergingDimensionsLeavesNoDivision) {
  const Expr batch = graph.add_dim("batch", {1, 8}), seq = graph.add_dim("seq", {1, 128});
  TensorBox x = lowering.input("x", DType::f32, {batch, seq, 768});
  TensorBox heads = lowering.reshape(x, {batch, seq, 12, 64});
  TensorBox back = lowering.reshape(heads, {batch * seq, 768});
  lowering.output("y", unary(OpCode::neg, back));
  EXPECT_EQ(to_string(graph.ops[0].as<Loops>()->body.instrs[0].index), "768*i0 + i1");
  EXPECT_TRUE(graph.guards.empty());
}

TEST_F(LoweringTest, AttentionNeedsNoCopies) {
  const Expr batch = graph.add_dim("batch", {1, 8}), seq = graph.add_dim("seq", {1, 128});
  TensorBox qkv = lowering.input("qkv", DType::f32, {batch, seq, 3 * 768});
  std::vector<TensorBox> parts;
  for (int p = 0; p < 3; ++p) {
    TensorBox part = lowering.slice(qkv, 2, p * 768, 768);
    parts.push_back(lowering.permute(lowering.reshape(part, {batch, seq, 12, 64}), {0, 2, 1, 3}));
  }
  TensorBox scores = lowering.matmul(parts[0], lowering.permute(parts[1], {0, 1, 3, 2}));
  TensorBox probabilities = unary(OpCode::exp, scores);
  TensorBox mixed = lowering.matmul(probabilities, parts[2]);
  TensorBox merged = lowering.reshape(lowering.permute(mixed, {0, 2, 1, 3}), {batch, seq, 768});
  TensorBox weight = lowering.input("w", DType::f32, {768, 768});
  lowering.output("y", lowering.matmul(merged, weight));
  EXPECT_EQ(kernels<Loops>().size(), 1u) << "only the exp";
  const std::vector<const Gemm*> gemms = kernels<Gemm>();
  ASSERT_EQ(gemms.size(), 3u);
  EXPECT_EQ(to_string(gemms[0]->b.offset), "768");
  EXPECT_EQ(to_string(gemms[0]->b.strides[3]), "2304");
  EXPECT_EQ(to_string(gemms[1]->out.strides[1]), "64") << "stored in the order that the reader wants";
  EXPECT_EQ(to_string(gemms[2]->a.sizes[0]), "batch*seq");
}

TEST_F(LoweringTest, ReductionsInlineWhatTheyReduce) {
  TensorBox x = lowering.input("x", DType::f32, {2, 3, 5});
  TensorBox sum = lowering.reduce(unary(OpCode::exp, x), ReduceKind::sum, {1}, true);
  EXPECT_EQ(sum.sizes(), (std::vector<Expr>{2, 1, 5}));
  lowering.output("y", sum);
  ASSERT_EQ(graph.ops.size(), 1u);
  const Loops& loops = *graph.ops[0].as<Loops>();
  EXPECT_EQ(loops.reduced, 1);
  EXPECT_EQ(to_string(loops.body.instrs[0].index), "15*i0 + i1 + 5*i2");
  EXPECT_EQ(to_string(loops.store_index), "5*i0 + i1");
}

// As QuantizeLinear and DequantizeLinear do.
TEST_F(LoweringTest, WhatIsRoundedToBytesIsSharedAsBytes) {
  TensorBox x = lowering.input("x", DType::f32, {4, 8});
  TensorBox wide = lowering.cast(lowering.cast(unary(OpCode::round, x), DType::u8), DType::f32);
  lowering.mark_reuse(wide, 2);
  lowering.output("y", unary(OpCode::exp, wide));
  lowering.output("z", unary(OpCode::neg, wide));
  ASSERT_EQ(graph.ops.size(), 3u);
  const BufferId bytes = graph.ops[0].outputs[0];
  EXPECT_EQ(graph[bytes].dtype, DType::u8);
  for (std::size_t k : {1u, 2u}) EXPECT_EQ(graph.ops[k].as<Loops>()->body.instrs[0].buffer, bytes);
}

// A function of bytes that costs something is computed once.
TEST_F(LoweringTest, DearFunctionsOfBytesAreShared) {
  TensorBox x = lowering.input("x", DType::f32, {4, 8});
  TensorBox tanh = unary(OpCode::tanh, lowering.cast(lowering.cast(x, DType::u8), DType::f32));
  lowering.mark_reuse(tanh, 2);
  lowering.output("y", unary(OpCode::exp, tanh));
  lowering.output("z", unary(OpCode::neg, tanh));
  ASSERT_EQ(graph.ops.size(), 3u);
  EXPECT_EQ(graph[graph.ops[0].outputs[0]].dtype, DType::f32);
}

TEST_F(LoweringTest, LoopsReadTheNarrowTensorThatAProductReadsWidened) {
  TensorBox x = lowering.input("x", DType::u8, {4, 8}), w = lowering.input("w", DType::f32, {8, 2});
  TensorBox wide = lowering.cast(x, DType::f32);
  lowering.output("y", lowering.matmul(wide, w));
  lowering.output("z", unary(OpCode::neg, wide));
  lowering.output("v", lowering.matmul(wide, w));
  std::size_t widened = 0;
  for (const Loops* loops : kernels<Loops>()) {
    EXPECT_EQ(graph[loops->body.instrs[0].buffer].dtype, DType::u8);
    widened += loops->body.instrs.back().code == OpCode::cast;
  }
  EXPECT_EQ(widened, 1u) << "both products read one tensor";
}

TEST_F(LoweringTest, ConcatenationWritesIntoSlices) {
  TensorBox x = lowering.input("x", DType::f32, {2, 3}), y = lowering.input("y", DType::f32, {2, 4});
  lowering.output("z", lowering.concat({x, unary(OpCode::neg, y)}, 1));
  ASSERT_EQ(graph.ops.size(), 2u);
  EXPECT_EQ(to_string(region(graph, graph.ops[1].outputs[0]).offset), "12");
  EXPECT_EQ(graph[root_storage(graph, graph.outputs[0].buffer)].kind, StorageKind::output);
}

TEST_F(LoweringTest, ProducerWritesStraightIntoTheCommunicationSegment) {
  graph.ranks = 2;
  const GroupId world = graph.add_group("world", {0, 1});
  TensorBox x = lowering.input("x", DType::f32, {4, 8}), w = lowering.input("w", DType::f32, {8, 8});
  TensorBox sum = lowering.all_reduce(lowering.matmul(x, w), world, ReduceKind::sum);
  lowering.output("y", unary(OpCode::neg, sum));
  ASSERT_EQ(graph.ops.size(), 5u) << "gemm, start, wait, release, neg";
  EXPECT_EQ(graph[root_storage(graph, graph.ops[0].outputs[0])].kind, StorageKind::comm);
}

TEST_F(LoweringTest, GraphInputsAreCopiedIntoTheCommunicationSegment) {
  graph.ranks = 2;
  const GroupId world = graph.add_group("world", {0, 1});
  TensorBox x = lowering.input("x", DType::f32, {4, 8});
  lowering.output("y", lowering.all_reduce(x, world, ReduceKind::sum));
  ASSERT_EQ(graph.ops.size(), 5u) << "copy-in, start, wait, release, copy-out";
}

TEST_F(LoweringTest, AllGatherOfTheLastAxisCopiesSlabBySlab) {
  graph.ranks = 2;
  const GroupId world = graph.add_group("world", {0, 1});
  TensorBox x = lowering.input("x", DType::f32, {4, 8});
  TensorBox all = lowering.all_gather(x, world, 1);
  EXPECT_EQ(all.sizes(), (std::vector<Expr>{4, 16}));
  lowering.output("y", all);
  for (const Loops* loops : kernels<Loops>()) {
    for (const Instr& instr : loops->body.instrs)
      EXPECT_EQ(to_string(instr.index).find("mod"), std::string::npos);
  }
}

TEST_F(LoweringTest, SizesThatCanNeverBeEqualAreRefused) {
  TensorBox x = lowering.input("x", DType::f32, {4}), y = lowering.input("y", DType::f32, {5});
  try {
    add(x, y);
    ADD_FAILURE() << "not refused";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), 305);
  }
}

TEST_F(LoweringTest, DynamicSizesThatMustAgreeBecomeAGuard) {
  TensorBox x = lowering.input("x", DType::f32, {graph.add_dim("a", {1, 9})});
  TensorBox y = lowering.input("y", DType::f32, {graph.add_dim("b", {1, 9})});
  add(x, y);
  ASSERT_EQ(graph.guards.size(), 1u);
  EXPECT_EQ(to_string(graph.guards[0].lhs), "a");
  EXPECT_EQ(to_string(graph.guards[0].rhs), "b");
}

}  // namespace
}  // namespace braid::ir
