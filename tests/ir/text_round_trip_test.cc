#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "ir/element.h"
#include "ir/error.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "tests/support/dump_schedule.h"

namespace braid::ir {
namespace {

// Canonical text stays as it is.
void round_trip(const std::string& text) {
  const Schedule s = parse_schedule(text, "test");
  EXPECT_EQ(print(s), text);
}

// Built by hand: what is read back is the same in every field.
void round_trip(const Schedule& s) {
  const std::string text = print(s);
  SCOPED_TRACE(text);
  const Schedule back = parse_schedule(text, "test");
  EXPECT_EQ(test::dump(back), test::dump(s));
  EXPECT_EQ(print(back), text);
}

TEST(Text, Pointwise) {
  round_trip(R"(graph main
dim batch in [1, 32]

input %x: f32[batch, 768]
input %bias: f32[768]

%h: f32[batch, 768] = pointwise {
  %0 = load %x
  %1 = load %bias[i1]
  %2 = add %0, %1
  %3 = tanh %2
  store %3
}

output %h
)");
}

TEST(Text, HandWrittenShortFormsMeanTheCanonicalOnes) {
  const Schedule a = parse_schedule(R"(graph main dim n in [1, 8] input %x: f32[n, 4] // a comment
%y: f32[n, 4] = pointwise [n, 4] { %v = load %x[i0, i1] %c = constant f32 2 %w = mul %v, %c store %w at 4*i0 + i1 }
output %y as y)");
  EXPECT_EQ(print(a), R"(graph main
dim n in [1, 8]

input %x: f32[n, 4]

%y: f32[n, 4] = pointwise {
  %0 = load %x
  %1 = constant f32 2.0
  %2 = mul %0, %1
  store %2
}

output %y
)");
}

TEST(Text, Reduction) {
  round_trip(R"(graph main
dim n in [0, 8]

input %x: f32[n, 4, 16]

%m: f32[n, 4] = reduction max over [16] {
  %0 = load %x
  store %0
}
%t: f32[4, n] = reduction sum [n, 4] over [16] as total from "/a/Sum", "b" cost(ns 12.5, flops 64) {
  %0 = load %x
  store %0 at n*i1 + i0
}

output %m
output %t as "t:0"
)");
}

TEST(Text, MasksIndirectLoadsAndLiterals) {
  round_trip(R"(graph main
dim n in [1, 8]

input %table: f32[50257, 64]
input %ids: i64[n]

%y: f32[n, 64] = pointwise {
  %0 = load %ids[i0]
  %1 = check_index %0, 50257
  %2 = index i64 floordiv(i1, 4) + max(0, n - 3)
  %3 = index i64 7
  %4 = lt %2, %3
  %5 = load %table[i1 + 64*%1] if %4
  %6 = constant f32 -inf
  %7 = where %4, %5, %6
  %8 = constant f32 0.1
  %9 = constant f32 -0.0
  %10 = add %7, %8
  %11 = add %10, %9
  %12 = constant f32 nan
  %13 = add %11, %12
  store %13
}

output %y
)");
}

TEST(Text, GemmWithEpilogueAndTransposedOperand) {
  round_trip(R"(graph main
dim n in [1, 8]

input %x: bf16[n, 16]
constant %w: bf16[4, 16] = splat(0.5)
constant %b: f32[4] = [1.0, 2.0, 3.0, 4.0]

%y: bf16[n, 4] = gemm %x, transpose(%w) epilogue {
  %0 = acc f32
  %1 = load %b[i1]
  %2 = add %0, %1
  %3 = cast bf16 %2
  return %3
} as %3 = add_vector %1
%s: f32[n, 4] = gemm %x, transpose(%w) epilogue {
  %0 = acc f32
  %1 = constant f32 0.1
  %2 = mul %0, %1
  %3 = constant f32 0.0
  %4 = max %2, %3
  %5 = sin %4
  return %5
} as %2 = scale 0.10000000149011612, %4 = relu
buffer %q: bf16[n, 12]
%p: bf16[n, 4] in %q at 4 strides [12, 1] = gemm %x, %w at 2 [16, 4] strides [1, 16]

output %y
output %s
output %q
)");
}

TEST(Text, CollectivesStartWaitRelease) {
  round_trip(R"(graph main
dim n in [1, 8]
ranks 4
channels communicator
group @all = [0, 1, 2, 3]
group @"odd name" = [3, 1]

input %x: f32[n, 16]

%c: f32[n, 16] comm(symmetric, @all) = pointwise {
  %0 = load %x
  store %0
}
%c.1 mutates %c = all_reduce sum @all (%c) algorithm two_shot as ar
%c.2 mutates %c.1 = wait ar
release ar
%g: f32[2*n, 16] comm(registered, @"odd name") = all_gather @"odd name" (%x) blocking
send @all (%x) peer 2 as s
wait s
%r: f32[n, 16] = recv @all peer 1
%r.1 mutates %r = wait r
%b: f32[n, 16] = broadcast @all (%x) root 0
%b.1 mutates %b = wait b

output %c.2
output %g
)");
}

TEST(Text, RegionsFusedAndGroupedNodes) {
  round_trip(R"(graph main

input %x: f32[4]
input %flag: bool[]

grouped outer {
  fused {
    %a: f32[4] = pointwise {
      %0 = load %x
      store %0
    }
    %b: f32[4] = pointwise {
      %0 = load %a
      store %0
    }
  }
  %c: f32[4] = pointwise {
    %0 = load %b
    store %0
  }
}
%d: f32[4] = branch (%flag, %c) {
  %e: f32[4] = call (%c) {
    %f: f32[4] = pointwise {
      %0 = load %c
      %1 = neg %0
      store %1
    }
    yield %f
  }
  yield %e
} else {
  yield %c
}
%d.1 mutates %d = repeat 3 (%d) {
  %d.2 mutates %d = pointwise {
    %0 = load %d
    %1 = add %0, %0
    store %1
  }
  yield %d.2
}

output %d.1
)");
}

TEST(Text, ExternKernels) {
  round_trip(R"(graph main

input %x: f32[4]

%p: f32[4], %q: f32[2, 2] = extern "topk" reads(%x) attributes(axis = -1, eps = 1e-05, mode = "a\"b") cost(reduction, ns 10)
extern barrier as unknown
%p.1 mutates %p = extern reads(%q, %x at 1 [2]) writes(%p.1 [2])

output %p.1
)");
}

TEST(Text, StoragesLayoutsAndAliases) {
  round_trip(R"(graph main
dim past in [0, 16]
ranks 2
group @all = [0, 1]

storage $pool: comm(registered, @all) [4096]
storage $shared: activation [256*past + 256]
input %past_k: f32[past, 64] as "past.k:0"

buffer %a: f32[past + 1, 64] on $shared
%b: f32[past, 64] in %a = pointwise {
  %0 = load %past_k
  store %0
}
%n: f32[1] no_memory = extern
%m: f32[2] multi_output = extern
%f: f32[2, 3] flexible = extern
%t: f32[2, 3] strides [1, 2] = extern
%k: f32[past, 64] output alias $past_k = extern reads(%a, %f, %t)
%z: f32[8] on $pool = extern

output %k
)");
}

TEST(Text, KindsOfStoragesBeforeTheNextStatement) {
  round_trip(R"(graph main

storage $odd: input [16]
input %x: f32[2, 3]

buffer %c: f32[2, 3] output
%p: f32[2, 3] in %c = pointwise {
  %0 = load %x
  store %0
}
buffer %odd: f32[4] on $odd
%q: f32[4] output = pointwise {
  %0 = load %odd
  store %0
}
buffer %d: f32[4] output
%d.1 mutates %d = pointwise {
  %0 = load %q
  store %0
}

output %c
output %d.1
)");
}

TEST(Text, MemoryPlan) {
  round_trip(R"(graph main

input %x: f32[4]

%a: f32[4] = pointwise {
  %0 = load %x
  store %0
}

output %a

plan arena 64 comm 0 live_peak 16 {
  $a: arena 0 bytes 16 steps 0..1
}
)");
}

TEST(Text, ConstantsPerRankInFilesAndElided) {
  round_trip(R"(graph main
ranks 2

constant %a: f32[2] = per_rank([1.0, 2.0], [3.0, nan])
constant %b: f32[100, 100] = file("weights.rank{rank}.bin", 4096)
constant %c: f32[100, 100] = elided(0x0123456789abcdef)
constant %d: f32[100] = per_rank(elided(0x0000000000000001), elided(0x0000000000000002))
constant %e: i64[0] = []
constant %f: bool[3] = [true, false, bits(0x07)]
constant %g: u64[1] = [18446744073709551615]
constant %h: f32[1] = [bits(0x7fc00001)]
constant %i: f16[3] = [65504.0, 5.9604645e-08, -inf]

%y: f32[2] = extern reads(%a, %b, %c, %d, %e, %f, %g, %h, %i)

output %y
)");
}

TEST(Text, OddNamesRoundTrip) {
  Schedule s;
  Graph& g = s.graph;
  g.name = "torch jit/\"x\"";
  g.ranks = 2;
  const Expr n = g.add_dim("i0", {1, 4}), m = g.add_dim("batch size: \xc3\xa4", {2, 4}),
             k = g.add_dim("min", {2, 4});
  g.guards.push_back({n * m, k + 2, Guard::Relation::less_equal, "/a b/\n\tc\x01\\"});
  g.add_group("tp group", {1, 0});
  const BufferId x = g.add_owned("/layers.0/MatMul:0", DType::f32, {n, m, k}, StorageKind::input);
  const BufferId y = g.add_owned("0", DType::f32, {n, m, k});
  g.inputs.push_back({"in put", x});
  BodyBuilder b(*g.pool);
  const Expr index = g.pool->index(0) * m * k + g.pool->index(1) * k + g.pool->index(2);
  const LoopBody body = b.finish(b.unary(OpCode::neg, b.load(x, DType::f32, index)));
  const OpId op = g.add_op({"a-b", Loops{{n, m, k}, 0, ReduceKind::sum, body, index}, {y}, {"or igin"}, {}});
  g.outputs.push_back({"", y});
  s.nodes.push_back(ScheduleNode::single(op));
  round_trip(s);
}

TEST(Text, PartsOfInputsAndOutputs) {
  const std::string text = R"(graph main  ranks 4  mesh [dp=2, tp=2]
dim n in [1, 8]

input %x: f32[n, 6, 64] as past part "S(1:6+6) on tp" of [n, 12, 64]
input %x again as other part "R" of [n, 6, 64]

%y: f32[n, 6, 64] output = pointwise { %0 = load %x  %1 = neg %0  store %1 }

output %y as present part "S(1) on dp, S(1) on tp" of [n, 24, 64]
)";
  const Schedule s = parse_schedule(text, "test");
  ASSERT_TRUE(s.graph.inputs[0].part && s.graph.outputs[0].part);
  EXPECT_EQ(s.graph.inputs[0].part->state, "S(1:6+6) on tp");
  EXPECT_EQ(s.graph.outputs[0].part->whole, (std::vector<Expr>{s.graph.dims[0], 24, 64}));
  round_trip(s);
  EXPECT_NE(print(s).find("as past part \"S(1:6+6) on tp\" of [n, 12, 64]"), std::string::npos) << print(s);

  std::string wrong = text;
  wrong.replace(wrong.find("[n, 12, 64]"), 11, "[n, 12]");
  const std::vector<Violation> violations = verify(parse_schedule(wrong, "test"));
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_NE(violations[0].message.find("a part of a tensor of 2"), std::string::npos);
}

TEST(Text, EveryElementTypePrintsItsExactBits) {
  std::uint64_t seed = 1;
  for (int d = 0; d < kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    std::vector<std::byte> bytes;
    for (int i = 0; i < 4096; ++i) {
      seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
      for (std::int64_t k = 0; k < size_of(dtype); ++k)
        bytes.push_back(static_cast<std::byte>(seed >> (8 * k + 3)));
    }
    Schedule s;
    const BufferId c = s.graph.add_owned("c", dtype, {4096}, StorageKind::constant);
    s.graph[s.graph[c].storage].data = own_bytes(bytes);
    s.graph.outputs.push_back({"c", c});
    const Schedule back = parse_schedule(print(s, {.inline_bytes = 1 << 20}));
    const auto read = back.graph.storages[0].data.of_rank(0);
    ASSERT_EQ(std::vector<std::byte>(read.begin(), read.end()), bytes) << to_string(dtype);
  }
}

TEST(Text, LargeConstantsAreElidedWithTheirHash) {
  Schedule s;
  const BufferId c = s.graph.add_owned("c", DType::f32, {1024}, StorageKind::constant);
  std::vector<std::byte> bytes(4096);
  bytes[5] = std::byte{1};
  s.graph[s.graph[c].storage].data = own_bytes(bytes);
  s.graph.outputs.push_back({"c", c});
  EXPECT_NE(print(s).find("elided(0x"), std::string::npos);
  EXPECT_EQ(print(s, {.inline_bytes = 4096}).find("elided(0x"), std::string::npos);
}

TEST(Text, WhereOneRanksDataIsElidedThatOfAllIs) {
  Schedule s =
      parse_schedule("graph g ranks 2 constant %c: f32[4] = per_rank([1, 2, 3, 4], splat(0)) output %c");
  const std::string text = print(s, {.inline_bytes = 8});
  EXPECT_NE(text.find("per_rank(elided("), std::string::npos) << text;
  EXPECT_EQ(print(parse_schedule(text)), text);
}

TEST(Text, LargeConstantsOfOneValueAreNotElided) {
  Schedule s;
  const BufferId c = s.graph.add_owned("c", DType::f32, {1024}, StorageKind::constant);
  s.graph[s.graph[c].storage].data = own_bytes(std::vector<std::byte>(4096));
  s.graph.outputs.push_back({"c", c});
  EXPECT_NE(print(s).find("splat(0.0)"), std::string::npos);
}

TEST(Text, DeadOperationsAndBuffersAreNotPrinted) {
  Schedule s;
  const BufferId x = s.graph.add_owned("x", DType::f32, {4}, StorageKind::input);
  s.graph.inputs.push_back({"x", x});
  const BufferId y = s.graph.add_owned("y", DType::f32, {4});
  s.graph.add_op(
      {"dead", ExternKernel{"f", {whole(s.graph, x)}, {whole(s.graph, y)}, {}, false}, {y}, {}, {}});
  EXPECT_EQ(print(s), "graph main\n\ninput %x: f32[4]\n\n");
}

TEST(Text, OneOperationPrintsWithoutItsSurroundings) {
  const Schedule s =
      parse_schedule("graph g input %x: f32[4] %y: f32[4] = pointwise { %0 = load %x store %0 }");
  EXPECT_EQ(print(s.graph, s.nodes[0].op), "%y: f32[4] = pointwise {\n  %0 = load %x\n  store %0\n}\n");
}

TEST(ParseExpr, ReadsDimsIndicesAndValues) {
  Graph g;
  const Expr n = g.add_dim("n", {1, 8});
  EXPECT_EQ(parse_expr("4*n + (i0 - 1)*2 + %3", g), n * 4 + (g.pool->index(0) - 1) * 2 + g.pool->value(3));
  EXPECT_EQ(parse_expr("ceildiv(n, 4)", g), ceil_div(n, 4));
  EXPECT_THROW(parse_expr("n n", g), UserError);
}

TEST(Half, ConversionsAgreeWithArithmetic) {
  for (std::uint32_t h = 0; h < 0x10000; ++h) {
    const float f = half_to_float(static_cast<std::uint16_t>(h));
    if (std::isnan(f)) continue;
    ASSERT_EQ(float_to_half(f), h);
    // Half way to the next one goes to the even one.
    if ((h & 0x7fff) >= 0x7bff) continue;
    const float next = half_to_float(static_cast<std::uint16_t>(h + 1));
    ASSERT_EQ(float_to_half((f + next) / 2), (h & 1) ? h + 1 : h) << h;
  }
  EXPECT_EQ(float_to_half(65520.0F), 0x7c00);
  EXPECT_EQ(float_to_half(65519.0F), 0x7bff);
  EXPECT_EQ(float_to_bfloat(1.00390625F), 0x3f80);  // a tie: to even
}

}  // namespace
}  // namespace braid::ir
