#include "passes/fuse_epilogues.h"

#include "tests/passes/text_pass.h"

namespace braid::passes {
namespace {

using test::expect_passes;
using test::expect_unchanged;

TEST(FuseEpilogues, BiasActivationAndCastJoinOneAfterTheOther) {
  expect_passes("fuse_epilogues", R"(graph main
dim n in [1, 8]

input %x: f32[n, 16]
input %w: f32[16, 4]
input %bias: f32[4]

%t: f32[n, 4] = gemm %x, %w
%u: f32[n, 4] = pointwise {
  %0 = load %t
  %1 = load %bias[i1]
  %2 = add %0, %1
  store %2
}
%y: bf16[n, 4] = pointwise {
  %0 = load %u
  %1 = tanh %0
  %2 = cast bf16 %1
  store %2
}

output %y
)",
                R"(graph main
dim n in [1, 8]

input %x: f32[n, 16]
input %w: f32[16, 4]
input %bias: f32[4]

%y: bf16[n, 4] = gemm %x, %w as t epilogue {
  %0 = acc f32
  %1 = load %bias[i1]
  %2 = add %0, %1
  %3 = tanh %2
  %4 = cast bf16 %3
  return %4
}

output %y
)");
}

TEST(FuseEpilogues, OtherFactorisationOfTheSameOrder) {
  expect_passes("fuse_epilogues", R"(graph main
dim b in [1, 8]
dim s in [1, 16]

input %x: f32[b*s, 16]
input %w: f32[16, 4]
input %residual: f32[b, s, 4]

%t: f32[b*s, 4] = gemm %x, %w
%y: f32[b, s, 4] = pointwise {
  %0 = load %t[4*s*i0 + 4*i1 + i2]
  %1 = load %residual
  %2 = add %0, %1
  store %2
}

output %y
)",
                R"(graph main
dim b in [1, 8]
dim s in [1, 16]

input %x: f32[b*s, 16]
input %w: f32[16, 4]
input %residual: f32[b, s, 4]

%y: f32[b, s, 4] = gemm %x, %w into %y [b*s, 4] as t epilogue {
  %0 = acc f32
  %1 = load %residual[4*i0 + i1]
  %2 = add %0, %1
  return %2
}

output %y
)");
}

TEST(FuseEpilogues, ResultIsRoundedAsItWasInMemory) {
  expect_passes("fuse_epilogues", R"(graph main

input %x: bf16[2, 16]
input %w: bf16[16, 4]

%t: bf16[2, 4] = gemm %x, %w
%y: f32[2, 4] = pointwise {
  %0 = load %t
  %1 = cast f32 %0
  store %1
}

output %y
)",
                R"(graph main

input %x: bf16[2, 16]
input %w: bf16[16, 4]

%y: f32[2, 4] = gemm %x, %w as t epilogue {
  %0 = acc f32
  %1 = cast bf16 %0
  %2 = cast f32 %1
  return %2
}

output %y
)");
}

TEST(FuseEpilogues, GemmMovesDownToWhatTheLoopNeeds) {
  expect_passes("fuse_epilogues", R"(graph main

input %x: f32[2, 16]
input %w: f32[16, 4]

%t: f32[2, 4] = gemm %x, %w
%v: f32[2, 4] = gemm %x, %w
%y: f32[2, 4] = pointwise {
  %0 = load %t
  %1 = load %v
  %2 = add %0, %1
  store %2
}

output %y
)",
                R"(graph main

input %x: f32[2, 16]
input %w: f32[16, 4]

%v: f32[2, 4] = gemm %x, %w
%y: f32[2, 4] = gemm %x, %w as t epilogue {
  %0 = acc f32
  %1 = load %v
  %2 = add %0, %1
  return %2
}

output %y
)");
}

TEST(FuseEpilogues, ReadElsewhereIsLeftAlone) {
  expect_unchanged("fuse_epilogues", R"(graph main

input %x: f32[4, 16]
input %w: f32[16, 4]

%t: f32[4, 4] = gemm %x, %w
%y: f32[4, 4] = pointwise {
  %0 = load %t
  %1 = load %t[i0 + 4*i1]
  %2 = add %0, %1
  store %2
}

output %y
)");
}

TEST(FuseEpilogues, SecondReaderOrOutputIsLeftAlone) {
  expect_unchanged("fuse_epilogues", R"(graph main

input %x: f32[4, 16]
input %w: f32[16, 4]

%t: f32[4, 4] = gemm %x, %w
%y: f32[4, 4] = pointwise {
  %0 = load %t
  store %0
}
%z: f32[4, 4] = pointwise {
  %0 = load %t
  store %0
}
%u: f32[4, 4] = gemm %x, %w
%v: f32[4, 4] = pointwise {
  %0 = load %u
  store %0
}

output %y
output %z
output %u
output %v
)");
}

TEST(FuseEpilogues, TransposeByHeadsIsNoViewOfTheResult) {
  expect_unchanged("fuse_epilogues", R"(graph main

input %x: f32[6, 16]
input %w: f32[16, 8]

%t: f32[6, 8] = gemm %x, %w
%y: f32[2, 6, 4] = pointwise [6, 2, 4] {
  %0 = load %t[8*i0 + 4*i1 + i2]
  store %0 at 4*i0 + 24*i1 + i2
}

output %y
)");
}

TEST(FuseEpilogues, OverwrittenOperandIsNotWrittenEarly) {
  expect_unchanged("fuse_epilogues", R"(graph main

input %x: f32[4, 4]
input %w: f32[4, 4]

%t: f32[4, 4] = gemm %x, %w
%x.1 mutates %x = pointwise {
  %0 = load %t
  store %0
}

output %x.1
)");
}

TEST(FuseEpilogues, GemmDoesNotMoveBehindAWaitThatItCouldHide) {
  const char* text = R"(graph main
ranks 2
group @all = [0, 1]

input %x: f32[4, 4]
input %w: f32[4, 4]

%c: f32[4, 4] comm(symmetric, @all) = pointwise {
  %0 = load %x
  store %0
}
%c.1 mutates %c = all_reduce sum @all (%c) as ar
%t: f32[4, 4] = gemm %x, %w
%c.2 mutates %c.1 = wait ar
release ar
%y: f32[4, 4] = pointwise {
  %0 = load %t
  %1 = load %c.2
  %2 = add %0, %1
  store %2
}

output %y
)";
  expect_unchanged("fuse_epilogues", text);
  EXPECT_EQ(
      test::after_passes("fuse_epilogues{keep_overlap=false}", text).find("= pointwise {\n  %0 = load %t"),
      std::string::npos);
}

}  // namespace
}  // namespace braid::passes
