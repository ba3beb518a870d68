// Collectives that change their operand or write into given memory, run by the interpreter on planned and
// unplanned memory, in several orders of the ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/comm_buffer.h"
#include "ir/lowering.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "tests/support/interpreter_runs.h"

namespace braid::ir {
namespace {

using Values = std::vector<float>;

class CollectiveInPlace : public ::testing::Test {
 protected:
  Schedule schedule;
  Graph& graph = schedule.graph;
  Lowering lowering{graph};
  GroupId world, other;
  TensorBox x;  // {1, 2, 3, 4} on rank 0, ten times that on rank 1

  CollectiveInPlace() {
    graph.ranks = 2;
    world = graph.add_group("world", {0, 1});
    other = graph.add_group("other", {1, 0});
    x = lowering.input("x", DType::f32, {2, 2});
  }
  TensorBox times(TensorBox t, double factor) {
    return lowering.pointwise({t}, [&](BodyBuilder& b, std::span<const ValueId> v) {
      return b.binary(OpCode::mul, v[0], b.constant_of(DType::f32, factor));
    });
  }
  // Outputs of rank 0, and of rank 1 in `rank1`.
  std::vector<Values> run() {
    for (OpId op : lowering.order()) schedule.nodes.push_back(ScheduleNode::single(op));
    check(schedule, "lowering");
    const Schedule again = parse_schedule(print(schedule));
    check(again, "printing");
    const std::vector<std::vector<Tensor>> inputs = {{f32({2, 2}, {1, 2, 3, 4})},
                                                     {f32({2, 2}, {10, 20, 30, 40})}};
    std::vector<std::vector<Values>> results;
    for (std::uint64_t seed : {0, 1, 2}) {
      InterpreterOptions options;
      options.order_seed = seed;
      const auto outputs = ir::run(again, inputs, options).outputs;
      results.clear();
      for (const std::vector<Tensor>& of_rank : outputs) {
        results.emplace_back();
        for (const Tensor& t : of_rank) results.back().push_back(t.values<float>());
      }
    }
    rank1 = results[1];
    return results[0];
  }
  int count_loops() {
    int n = 0;
    for (const Operation& op : graph.ops) n += op.as<Loops>() != nullptr;
    return n;
  }
  std::vector<Values> rank1;
};

TEST_F(CollectiveInPlace, TheProducersMemoryIsReducedAndViewsSeeIt) {
  TensorBox p = times(x, 2);
  TensorBox turned = lowering.permute(p, {1, 0});
  lowering.all_reduce_(p, world, ReduceKind::sum);
  EXPECT_EQ(count_loops(), 1) << "no copy";
  const auto& kernel = *graph.ops[1].as<CollectiveKernel>();
  EXPECT_EQ(root_storage(graph, kernel.inputs[0].buffer), root_storage(graph, kernel.outputs[0].buffer));
  lowering.output("y", p);
  lowering.output("t", turned);
  EXPECT_EQ(run(), (std::vector<Values>{{22, 44, 66, 88}, {22, 66, 44, 88}}));
}

TEST_F(CollectiveInPlace, WhatWasComputedBeforeKeepsTheOldValue) {
  TensorBox p = lowering.realize(times(x, 2));
  TensorBox before = times(p, 1);  // not realized yet
  lowering.all_reduce_(p, world, ReduceKind::sum);
  lowering.output("before", before);
  lowering.output("after", p);
  EXPECT_EQ(run(), (std::vector<Values>{{2, 4, 6, 8}, {22, 44, 66, 88}}));
}

TEST_F(CollectiveInPlace, AStridedPartIsWrittenBack) {
  TensorBox p = lowering.realize(times(x, 2));
  lowering.all_reduce_(lowering.slice(p, 1, 0, 1), world, ReduceKind::sum);
  lowering.output("y", p);
  EXPECT_EQ(run(), (std::vector<Values>{{22, 4, 66, 8}}));
  EXPECT_EQ(rank1, (std::vector<Values>{{22, 40, 66, 80}}));
}

TEST_F(CollectiveInPlace, APermutedValueIsReducedWhereItLies) {
  TensorBox p = lowering.matmul(x, x);
  lowering.all_reduce_(lowering.permute(p, {1, 0}), world, ReduceKind::max);
  EXPECT_EQ(count_loops(), 0);
  lowering.output("y", p);
  EXPECT_EQ(run(), (std::vector<Values>{{700, 1000, 1500, 2200}}));
}

TEST_F(CollectiveInPlace, GraphInputsAndConstantsStayAsTheyAre) {
  TensorBox same = lowering.from_buffer(graph.inputs[0].buffer);
  TensorBox old = times(same, 1);
  lowering.all_reduce_(x, world, ReduceKind::sum);
  lowering.output("old", old);
  lowering.output("y", x);
  EXPECT_EQ(run(), (std::vector<Values>{{1, 2, 3, 4}, {11, 22, 33, 44}}));
}

TEST_F(CollectiveInPlace, APartOfAGraphInputIsReducedInACopy) {
  lowering.all_reduce_(lowering.slice(x, 0, 1, 1), world, ReduceKind::sum);
  lowering.output("y", x);
  EXPECT_EQ(run(), (std::vector<Values>{{1, 2, 33, 44}}));
}

TEST_F(CollectiveInPlace, CoalescedAndTwiceInARow) {
  TensorBox p = times(x, 1), q = times(x, 3);
  lowering.all_reduce_({p, q}, world, ReduceKind::sum);
  lowering.all_reduce_(q, world, ReduceKind::sum);
  lowering.output("p", p);
  lowering.output("q", q);
  EXPECT_EQ(run(), (std::vector<Values>{{11, 22, 33, 44}, {66, 132, 198, 264}}));
}

TEST_F(CollectiveInPlace, WhatAnotherGroupReadsIsReducedInACopy) {
  TensorBox p = lowering.realize(times(x, 1));
  TensorBox sum = lowering.all_reduce(p, other, ReduceKind::sum);
  lowering.all_reduce_(p, world, ReduceKind::max);
  lowering.output("sum", sum);
  lowering.output("max", p);
  EXPECT_EQ(run(), (std::vector<Values>{{11, 22, 33, 44}, {10, 20, 30, 40}}));
  const std::vector<CommBufferDecision> decisions = comm_buffer_decisions(schedule);
  ASSERT_EQ(decisions.size(), 4u);
  EXPECT_EQ(decisions[0].reason, CommBufferReason::produced_here);
  EXPECT_EQ(decisions[2].reason, CommBufferReason::other_group);
  EXPECT_EQ(bounds(decisions[2].bytes).max, 16);
}

TEST_F(CollectiveInPlace, BroadcastChangesEveryoneButTheRoot) {
  TensorBox p = times(x, 1);
  lowering.broadcast_(p, world, 1);
  lowering.output("y", p);
  EXPECT_EQ(run(), (std::vector<Values>{{10, 20, 30, 40}}));
  EXPECT_EQ(rank1, (std::vector<Values>{{10, 20, 30, 40}}));
}

TEST_F(CollectiveInPlace, GatherIntoGivenMemoryLandsThere) {
  TensorBox out = lowering.empty("out", DType::f32, {4, 2});
  lowering.all_gather_into(times(x, 1), world, 0, out);
  EXPECT_EQ(count_loops(), 1) << "the producer";
  lowering.output("y", out);
  EXPECT_EQ(run(), (std::vector<Values>{{1, 2, 3, 4, 10, 20, 30, 40}}));
}

TEST_F(CollectiveInPlace, GatherIntoAPartOrAlongAnotherAxisIsWrittenThere) {
  TensorBox frame = lowering.realize(lowering.full({4, 6}, DType::f32, 7));
  lowering.all_gather_into(times(x, 1), world, 1, lowering.slice(lowering.slice(frame, 0, 1, 2), 1, 1, 4));
  lowering.output("y", frame);
  EXPECT_EQ(run(), (std::vector<Values>{{7, 7, 7, 7,  7,  7, 7, 1, 2, 10, 20, 7,  //
                                         7, 3, 4, 30, 40, 7, 7, 7, 7, 7,  7,  7}}));
}

TEST_F(CollectiveInPlace, ScatterIntoGivenMemory) {
  TensorBox out = lowering.empty("out", DType::f32, {1, 2});
  TensorBox column = lowering.empty("column", DType::f32, {2, 1});
  lowering.reduce_scatter_into(times(x, 1), world, 0, ReduceKind::sum, out);
  lowering.reduce_scatter_into(times(x, 1), world, 1, ReduceKind::sum, column);
  lowering.output("y", out);
  lowering.output("z", column);
  EXPECT_EQ(run(), (std::vector<Values>{{11, 22}, {11, 33}}));
  EXPECT_EQ(rank1, (std::vector<Values>{{33, 44}, {22, 44}}));
}

TEST_F(CollectiveInPlace, AGatherOfWhatItWritesReadsTheOldValue) {
  TensorBox out = lowering.realize(lowering.full({4, 2}, DType::f32, 5));
  lowering.all_gather_into(lowering.slice(out, 0, 0, 2), world, 0, out);
  lowering.output("y", out);
  EXPECT_EQ(run(), (std::vector<Values>{{5, 5, 5, 5, 5, 5, 5, 5}}));
}

TEST_F(CollectiveInPlace, TheSameMemoryTwiceIsRefused) {
  TensorBox p = times(x, 1);
  expect_user_error(580, "share memory", [&] {
    lowering.all_reduce_({p, lowering.permute(p, {1, 0})}, world, ReduceKind::sum);
  });
}

TEST_F(CollectiveInPlace, MemoryOfAnotherShapeIsRefused) {
  TensorBox out = lowering.empty("out", DType::f32, {3, 2});
  expect_user_error(580, "output tensor differs",
                    [&] { lowering.all_gather_into(times(x, 1), world, 0, out); });
}

}  // namespace
}  // namespace braid::ir
