#include "passes/raise_outputs.h"

#include "tests/passes/text_pass.h"

namespace braid::passes {
namespace {

using test::expect_passes;
using test::expect_unchanged;

TEST(RaiseOutputs, CopyFollowsItsSource) {
  expect_passes("raise_outputs", R"(graph main

input %x: f32[4, 4]
input %w: f32[4, 4]

%a: f32[4, 4] = gemm %x, %w
%b: f32[4, 4] = gemm %a, %w
%c: f32[4, 4] = gemm %b, %w
%y: f32[4, 4] output = pointwise {
  %0 = load %a[i0 + 4*i1]
  store %0
}
%z: f32[4, 4] output = pointwise {
  %0 = load %a
  store %0
}

output %c
output %y
output %z
)",
                R"(graph main

input %x: f32[4, 4]
input %w: f32[4, 4]

%a: f32[4, 4] = gemm %x, %w
%y: f32[4, 4] output = pointwise {
  %0 = load %a[i0 + 4*i1]
  store %0
}
%z: f32[4, 4] output = pointwise {
  %0 = load %a
  store %0
}
%b: f32[4, 4] = gemm %a, %w
%c: f32[4, 4] = gemm %b, %w

output %c
output %y
output %z
)");
}

TEST(RaiseOutputs, WhatIsNotAnOutputStays) {
  expect_unchanged("raise_outputs", R"(graph main

input %x: f32[4, 4]
input %w: f32[4, 4]

%a: f32[4, 4] = gemm %x, %w
%b: f32[4, 4] = gemm %x, %w
%c: f32[4, 4] = pointwise {
  %0 = load %a
  store %0
}
%d: f32[4, 4] = gemm %c, %b

output %d
)");
}

TEST(RaiseOutputs, OverwrittenInputIsReadFirst) {
  expect_unchanged("raise_outputs", R"(graph main

input %x: f32[4, 4]
input %w: f32[4, 4]

%a: f32[4, 4] = gemm %x, %w
%b: f32[4, 4] = gemm %x, %w
%x.1 mutates %x = pointwise {
  %0 = load %a
  store %0
}

output %b
output %x.1
)");
}

}  // namespace
}  // namespace braid::passes
