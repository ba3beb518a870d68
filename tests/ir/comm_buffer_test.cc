// Which values are communication buffers, with reasons, and what two groups do to one value.
#include "ir/comm_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/lowering.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "tests/support/interpreter_runs.h"

namespace braid::ir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CommBuffer : public ::testing::Test {
 protected:
  Schedule schedule;
  Graph& graph = schedule.graph;
  Lowering lowering{graph};
  GroupId world, pair;

  CommBuffer() {
    graph.ranks = 3;
    world = graph.add_group("world", {0, 1, 2});
    pair = graph.add_group("pair", {0, 1});
  }
  TensorBox exp_of(TensorBox x) {
    return lowering.pointwise(
        {x}, [](BodyBuilder& b, std::span<const ValueId> v) { return b.unary(OpCode::exp, v[0]); });
  }
  TensorBox gemm_of(TensorBox x) { return lowering.matmul(x, x); }
  void finish() {
    for (OpId op : lowering.order()) schedule.nodes.push_back(ScheduleNode::single(op));
    schedule = parse_schedule(print(schedule));
    check(schedule, "lowering");
  }
  // Returns the reasons for all operands, in execution order; results are left out.
  std::vector<CommBufferReason> operands() {
    std::vector<CommBufferReason> out;
    for (const CommBufferDecision& d : comm_buffer_decisions(schedule)) {
      if (!d.result) out.push_back(d.reason);
    }
    return out;
  }
  std::int64_t copied() { return bounds(copied_bytes(graph, comm_buffer_decisions(schedule))).max; }
  int loops() {
    int n = 0;
    for (const Operation& op : graph.ops) n += op.as<Loops>() != nullptr;
    return n;
  }
};

using R = CommBufferReason;

TEST_F(CommBuffer, WhatOurKernelsFillIsFilledInTheSegment) {
  TensorBox x = lowering.input("x", DType::f32, {4, 4});
  lowering.all_reduce(exp_of(x), world, ReduceKind::sum);
  lowering.all_reduce(gemm_of(x), world, ReduceKind::sum);
  lowering.all_reduce(lowering.concat({x, exp_of(x)}, 0), world, ReduceKind::sum);
  finish();
  EXPECT_THAT(operands(), ElementsAre(R::produced_here, R::produced_here, R::packed));
}

TEST_F(CommBuffer, MemoryOfOthersIsCopiedInWithItsReason) {
  TensorBox x = lowering.input("x", DType::f32, {4, 4});
  TensorBox w = lowering.constant("w", DType::f32, {4}, own_bytes(std::vector<std::byte>(16)));
  lowering.all_reduce(x, world, ReduceKind::sum);
  lowering.all_reduce(w, world, ReduceKind::sum);
  finish();
  EXPECT_THAT(operands(), ElementsAre(R::graph_input, R::constant));
  EXPECT_EQ(copied(), 64 + 16);
}

TEST_F(CommBuffer, ContiguousPartsConvertTheStorageBeneathThem) {
  TensorBox p = gemm_of(lowering.input("x", DType::f32, {4, 4}));
  lowering.all_reduce(lowering.slice(p, 0, 2, 2), world, ReduceKind::sum);
  finish();
  EXPECT_THAT(operands(), ElementsAre(R::produced_here));
  EXPECT_EQ(loops(), 0);
  EXPECT_EQ(bounds(graph[root_storage(graph, BufferId{1})].bytes).max, 64);
}

TEST_F(CommBuffer, StridedPartsAreCopied) {
  TensorBox p = gemm_of(lowering.input("x", DType::f32, {4, 4}));
  lowering.all_reduce(lowering.slice(p, 1, 0, 2), world, ReduceKind::sum);
  finish();
  EXPECT_THAT(operands(), ElementsAre(R::not_contiguous));
  EXPECT_EQ(copied(), 32);
}

TEST_F(CommBuffer, ACopyOfTheProgramsOwnIsNotTakenForAnotherOrder) {
  const auto program = [](const char* loaded, const char* stored) {
    return parse_schedule(
        "graph g\nranks 2\ngroup @g = [0, 1]\ninput %x: f32[4, 4]\n"
        "%a: f32[4, 4] = pointwise { %0 = load %x %1 = exp %0 store %1 }\n"
        "%b: f32[4, 4] comm(symmetric, @g) = pointwise { %0 = load %a[" +
        std::string(loaded) +
        "] store %0 }\n"
        "%c: f32[4, 4] comm(symmetric, @g) = all_reduce sum @g (%b)\n%c.1 mutates %c = wait c\n"
        "%d: f32[4, 4] = pointwise { %0 = load %c.1[" +
        stored +
        "] store %0 }\nrelease c\n"
        "%y: f32[4, 4] output = pointwise { %0 = load %d %1 = neg %0 store %1 }\noutput %y\n");
  };
  const auto reasons = [](const Schedule& s) {
    std::vector<CommBufferReason> out;
    for (const CommBufferDecision& d : comm_buffer_decisions(s)) out.push_back(d.reason);
    return out;
  };
  const char *same = "4*i0 + i1", *transposed = "4*i1 + i0";
  EXPECT_THAT(reasons(program(same, same)), ElementsAre(R::cloned, R::cloned));
  EXPECT_THAT(reasons(program(same, transposed)), ElementsAre(R::cloned, R::not_contiguous));
  EXPECT_THAT(reasons(program(transposed, same)), ElementsAre(R::not_contiguous, R::cloned));
  // Part of a larger buffer, in the same order; a copy into memory that was there; one of the same group's.
  EXPECT_THAT(reasons(parse_schedule(R"(graph g ranks 2 group @g = [0, 1]
input %x: f32[8]
%a: f32[8] = pointwise { %0 = load %x %1 = exp %0 store %1 }
%b: f32[4] comm(symmetric, @g) = pointwise { %0 = load %a[4 + i0] store %0 }
%c: f32[4] comm(symmetric, @g) = all_reduce sum @g (%b)
%c.1 mutates %c = wait c
release c
%d: f32[4] comm(symmetric, @g) = pointwise { %0 = load %x[i0] %1 = neg %0 store %1 }
%d.1 mutates %d = pointwise { %0 = load %a[i0] store %0 }
%e: f32[4] comm(symmetric, @g) = all_reduce sum @g (%d.1)
%e.1 mutates %e = wait e
release e
%f: f32[4] comm(symmetric, @g) = pointwise { %0 = load %e.1 store %0 }
%h: f32[4] comm(symmetric, @g) = all_reduce sum @g (%f)
%h.1 mutates %h = wait h
release h
%y: f32[4] output = pointwise { %0 = load %c.1 %1 = load %h.1 %2 = add %0, %1 store %2 }
output %y
)")),
              ElementsAre(R::cloned, R::already, R::cloned, R::already, R::cloned, R::already));
}

TEST_F(CommBuffer, AFlexibleLayoutIsTheOneThatTheCollectiveReads) {
  TensorBox p = gemm_of(lowering.input("x", DType::f32, {4, 4}));
  lowering.all_reduce(lowering.permute(p, {1, 0}), world, ReduceKind::sum);
  finish();
  EXPECT_THAT(operands(), ElementsAre(R::produced_here));
  EXPECT_EQ(loops(), 0);
}

TEST_F(CommBuffer, ConvertingTwiceIsTheSameAsOnce) {
  TensorBox p = gemm_of(lowering.input("x", DType::f32, {4, 4}));
  lowering.all_reduce(p, world, ReduceKind::sum);
  const std::size_t buffers = graph.buffers.size();
  lowering.all_reduce(p, world, ReduceKind::max);
  EXPECT_EQ(graph.buffers.size(), buffers + 2) << "only the second result and its wait";
  finish();
  EXPECT_THAT(operands(), ElementsAre(R::produced_here, R::produced_here));
}

TEST_F(CommBuffer, ACopyServesAllThatWantTheSameValue) {
  TensorBox x = lowering.input("x", DType::f32, {4, 4});
  lowering.all_reduce(x, world, ReduceKind::sum);
  lowering.all_reduce(x, pair, ReduceKind::sum);
  finish();
  EXPECT_EQ(loops(), 1);
  EXPECT_THAT(operands(), ElementsAre(R::graph_input, R::graph_input));
  EXPECT_EQ(copied(), 64) << "counted once";
}

TEST_F(CommBuffer, AResultIsTheNextCollectivesOperandWhereItLies) {
  TensorBox p = gemm_of(lowering.input("x", DType::f32, {4, 4}));
  lowering.all_gather(lowering.all_reduce(p, world, ReduceKind::sum), world, 0);
  finish();
  EXPECT_EQ(loops(), 0);
  EXPECT_THAT(operands(), ElementsAre(R::produced_here, R::already));
}

// The rule "the first group keeps the slot" would fail here.
TEST(CommBufferOrder, TwoGroupsShareASlotWhicheverComesFirst) {
  std::vector<std::string> slots;
  for (const bool pair_first : {false, true}) {
    Graph graph;
    graph.ranks = 3;
    Lowering lowering(graph);
    GroupId a = graph.add_group("a", {0, 1, 2}), b = graph.add_group("b", {0, 1});
    if (pair_first) std::swap(a, b);
    TensorBox x = lowering.input("x", DType::f32, {4, 4});
    TensorBox p = lowering.matmul(x, x);
    lowering.all_reduce(p, a, ReduceKind::sum);
    lowering.all_reduce(p, b, ReduceKind::sum);
    const Storage& slot = graph[root_storage(graph, graph.ops[0].outputs[0])];
    std::string text(to_string(slot.comm_kind));
    for (GroupId g : slot.groups) text += " " + graph[g].name;
    slots.push_back(text);
    EXPECT_EQ(std::count_if(graph.ops.begin(), graph.ops.end(),
                            [](const Operation& op) { return op.as<Loops>() != nullptr; }),
              0);
  }
  EXPECT_THAT(slots, ElementsAre("symmetric a b", "symmetric a b"));
}

TEST(CommBufferOrder, TheStrongerPromiseHoldsWhicheverComesFirst) {
  for (const bool symmetric_first : {false, true}) {
    Graph graph;
    const GroupId a = graph.add_group("a", {0}), b = graph.add_group("b", {0});
    const BufferId x = graph.add_owned("x", DType::f32, {4});
    make_comm_buffer(graph, x, symmetric_first ? a : b,
                     symmetric_first ? CommBufferKind::symmetric : CommBufferKind::registered);
    make_comm_buffer(graph, x, symmetric_first ? b : a,
                     symmetric_first ? CommBufferKind::registered : CommBufferKind::symmetric);
    EXPECT_EQ(graph[root_storage(graph, x)].comm_kind, CommBufferKind::symmetric);
    EXPECT_EQ(graph[root_storage(graph, x)].groups, (std::vector<GroupId>{a, b}));
  }
}

TEST(CommBufferText, SharedSlotsAndDecisionsSurviveTheText) {
  const std::string text = R"(graph shared
ranks 3
group @a = [0, 1, 2]
group @b = [0, 1]
input %x: f32[8]
input %y: f32[8]
%p: f32[8] comm(symmetric, @a, @b) = pointwise { %0 = load %x %1 = exp %0 store %1 }
%c: f32[8] comm(symmetric, @a) = pointwise { %0 = load %y store %0 }
%r: f32[8] comm(registered, @a) = all_reduce sum @a (%p)
%r.1 mutates %r = wait r as r.wait
release r as r.release
%s: f32[8] comm(registered, @b) = all_reduce sum @b (%p)
%s.1 mutates %s = wait s as s.wait
release s as s.release
%t: f32[8] comm(registered, @a) = all_reduce sum @a (%c)
%t.1 mutates %t = wait t as t.wait
release t as t.release
%out: f32[8] output = pointwise { %0 = load %t.1 store %0 }
output %out
)";
  const Schedule schedule = parse_schedule(text);
  const std::string again = print(schedule);
  EXPECT_THAT(again, HasSubstr("comm(symmetric, @a, @b)"));
  EXPECT_EQ(print(parse_schedule(again)), again);
  std::vector<R> reasons;
  for (const CommBufferDecision& d : comm_buffer_decisions(parse_schedule(again)))
    reasons.push_back(d.reason);
  EXPECT_THAT(reasons,
              ElementsAre(R::shared, R::already, R::shared, R::already, R::graph_input, R::graph_output));
  EXPECT_EQ(bounds(copied_bytes(schedule.graph, comm_buffer_decisions(schedule))).max, 64);
}

TEST(CommBufferAnswer, EveryRefusalHasItsReason) {
  Graph graph;
  const GroupId g = graph.add_group("g", {0}), h = graph.add_group("h", {0});
  const auto ask = [&](BufferId b, bool writes = false, GroupId group = {}) {
    return can_be_comm_buffer(graph, b, whole(graph, b), group.valid() ? group : g, CommBufferKind::symmetric,
                              writes);
  };
  EXPECT_EQ(ask(graph.add_owned("in", DType::f32, {4}, StorageKind::input)), R::graph_input);
  EXPECT_EQ(ask(graph.add_owned("out", DType::f32, {4}, StorageKind::output)), R::graph_output);
  EXPECT_EQ(ask(graph.add_owned("w", DType::f32, {4}, StorageKind::constant)), R::constant);
  const Expr n = graph.add_dim("n", {1, kUnbounded});
  EXPECT_EQ(ask(graph.add_owned("long", DType::f32, {n})), R::unbounded);
  const BufferId foreign = graph.add_owned("foreign", DType::f32, {4});
  graph.add_op({"foreign", ExternKernel{}, {foreign}, {}, {}});
  EXPECT_EQ(ask(foreign), R::foreign_output);

  const BufferId x = graph.add_owned("x", DType::f32, {4});
  EXPECT_EQ(ask(x), R::produced_here);
  EXPECT_EQ(can_be_comm_buffer(graph, x, std::nullopt, g, CommBufferKind::symmetric), R::not_contiguous);
  make_comm_buffer(graph, x, g, CommBufferKind::symmetric);
  EXPECT_EQ(ask(x), R::already);
  EXPECT_EQ(ask(x, true), R::already) << "a group's own collectives are in order";
  EXPECT_EQ(ask(x, false, h), R::shared);
  EXPECT_EQ(ask(x, true, h), R::other_group) << "peers of g may still be reading";
}

}  // namespace
}  // namespace braid::ir
