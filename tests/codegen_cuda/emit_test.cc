#include "codegen/cuda/emit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/compile.h"
#include "ir/error.h"
#include "ir/parser.h"
#include "passes/default_passes.h"
#include "passes/runner.h"
#include "tests/codegen_cuda/cases.h"
#include "tests/support/random_collectives.h"
#include "tests/support/user_error.h"

namespace braid::test {
namespace {

using codegen::cuda::emit_cuda;
using ir::DType;

TEST(Emit, EqualSchedulesGiveEqualBytes) {
  for (const char* name : {"layers_2", "softmax_row", "gemm_residual_f16", "groups"}) {
    const auto a = emit_cuda(find_case(name).build()), b = emit_cuda(find_case(name).build());
    EXPECT_EQ(a.body, b.body) << name;
    EXPECT_EQ(a.header, b.header) << name;
    EXPECT_EQ(a.id, b.id) << name;
  }
}

TEST(Emit, EqualKernelsAreOne) {
  const auto program = emit_cuda(find_case("layers_2").build());
  EXPECT_EQ(program.kernels, 2);  // sign and add, of three layers
}

TEST(Emit, OperationsWithoutCudaCodeAreRefusedTogether) {
  ir::Graph g;
  const ir::BufferId x = g.add_owned("x", DType::f32, {4}, ir::StorageKind::input);
  g.inputs.push_back({"x", x});
  std::vector<ir::OpId> order;
  for (const char* callee : {"quantum_fft", "oracle"}) {
    ir::ExternKernel k;
    k.callee = callee;
    k.reads = {whole(g, x)};
    const ir::BufferId y = g.add_owned(callee, DType::f32, {4});
    k.writes = {whole(g, y)};
    order.push_back(g.add_op({callee, k, {y}, {std::string("/") + callee}, std::nullopt}));
  }
  const ir::Schedule s = planned(std::move(g), order);
  EXPECT_THAT(error_of([&] { emit_cuda(s); }),
              ::testing::AllOf(::testing::HasSubstr("BR0640"),
                               ::testing::HasSubstr("'/quantum_fft': extern kernel 'quantum_fft'"),
                               ::testing::HasSubstr("'/oracle': extern kernel 'oracle'")));
}

TEST(Emit, ReductionsThatNcclLacksAreRefused) {
  Net net;
  net.graph.ranks = 2;
  const ir::GroupId world = net.graph.add_group("world", {0, 1});
  net.lowering.set_origin("/AllReduce");
  net.lowering.output("y",
                      net.lowering.all_reduce(net.input("x", DType::i16, {4}), world, ir::ReduceKind::sum));
  const ir::Schedule s = net.finish();
  EXPECT_THAT(error_of([&] { emit_cuda(s); }),
              ::testing::AllOf(::testing::HasSubstr("BR0641"), ::testing::HasSubstr("/AllReduce")));
}

TEST(Emit, QueuesPerPairAreRefused) {
  ir::Schedule s = find_case("layers_2").build();
  s.channels = ir::ChannelPolicy::pair;
  EXPECT_THAT(error_of([&] { emit_cuda(s); }), ::testing::HasSubstr("BR0642"));
}

TEST(Emit, ACollectiveBetweenASendAndItsReceiveIsRefused) {
  const auto program = [](const std::string& between) {
    return ir::parse_schedule(R"(graph g ranks 3 group @pair = [0, 1]
group @with = [2, 0] group @without = [1, 2] input %x: f32[4]
%a: f32[4] = pointwise { %0 = load %x store %0 }
send @pair (%a) peer 1 as out
%y: f32[4] = all_reduce sum )" +
                              between + R"( (%a) as sum
%z: f32[4] = recv @pair peer 0 as in
wait out
%y.1 mutates %y = wait sum
%z.1 mutates %z = wait in
%r: f32[4] output = pointwise { %0 = load %y.1 %1 = load %z.1 %2 = add %0, %1 store %2 }
output %r)");
  };
  ir::Schedule hangs = program("@with"), runs = program("@without");
  for (ir::Schedule* s : {&hangs, &runs}) passes::run_passes(*s, passes::parse_pass_list("plan_memory"));
  EXPECT_THAT(
      error_of([&] { emit_cuda(hangs); }),
      ::testing::AllOf(::testing::HasSubstr("BR0642"), ::testing::HasSubstr("'sum' is between 'out'")));
  EXPECT_NO_THROW(emit_cuda(runs));
}

// Nothing in the names of a model can become code.
TEST(Emit, NamesCannotBreakOutOfCommentsAndStrings) {
  Net net;
  net.lowering.set_origin("evil\nint x; // \\");
  net.lowering.output(
      "y\"; exit(1); \"",
      net.unary(ir::OpCode::neg, net.input("*/ x", DType::f32, {net.graph.add_dim("a b", {1, 4})})));
  const std::string body = emit_cuda(net.finish()).body;
  EXPECT_THAT(body, ::testing::Not(::testing::HasSubstr("\nint x;")));
  EXPECT_THAT(body, ::testing::HasSubstr("\"y\\\"; exit(1); \\\"\""));
  EXPECT_THAT(body, ::testing::HasSubstr("dimension_a_b_"));
}

// Uses random programs with messages and one order per communicator.
TEST(Emit, PassesPutNothingBetweenASendAndItsReceive) {
  const auto refused = [](const ir::Schedule& s) {
    return error_of([&] { emit_cuda(s); }).find("BR0642") != std::string::npos;
  };
  int programs = 0, parted = 0;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    const ir::Schedule written = random_collectives(seed, {.nccl = true}).schedule;
    if (written.channels != ir::ChannelPolicy::communicator) continue;
    ++programs;
    ir::Schedule scheduled = written;
    passes::run_passes(scheduled, passes::default_passes());
    parted += refused(scheduled);
    scheduled = written;
    CompileOptions options;
    options.target = "cuda";
    optimise(scheduled, options);
    EXPECT_FALSE(refused(scheduled)) << "seed " << seed;
    EXPECT_TRUE(scheduled.channels == ir::ChannelPolicy::global) << "what the passes have scheduled for";
  }
  EXPECT_GT(programs, 0);
  EXPECT_GT(parted, 0) << "the passes never try";
}

}  // namespace
}  // namespace braid::test
