#include "passes/forward_copies.h"

#include "tests/passes/text_pass.h"

namespace braid::passes {
namespace {

using test::expect_passes;
using test::expect_unchanged;

TEST(ForwardCopies, TwoChainedCopiesBecomeOne) {
  expect_passes("forward_copies", R"(graph main
dim n in [1, 8]

input %x: f32[2, n, 34]

%t: f32[n, 2, 34] = pointwise from "gather" {
  %0 = load %x[34*n*i1 + 34*i0 + i2]
  store %0
}
%y: f32[n, 2, 30] output = pointwise from "slice" {
  %0 = load %t[68*i0 + 34*i1 + i2]
  store %0
}

output %y
)",
                R"(graph main
dim n in [1, 8]

input %x: f32[2, n, 34]

%y: f32[n, 2, 30] output = pointwise from "gather", "slice" {
  %0 = load %x[34*n*i1 + 34*i0 + i2]
  store %0
}

output %y
)");
}

// A slice of what was gathered along the last axis: its rows begin in one rank's part and end in another's.
TEST(ForwardCopies, RowThatLiesInSeveralRowsOfTheSourceIsCopiedInParts) {
  expect_passes("forward_copies", R"(graph main
dim n in [1, 8]

input %x: f32[2, 1, n, 34]

%t: f32[1, n, 2, 34] = pointwise from "gather" {
  %0 = load %x[34*n*i2 + 34*i1 + i3]
  store %0
}
%y: f32[1, n, 67] output = pointwise from "slice" {
  %0 = load %t[68*i1 + i2]
  store %0
}

output %y
)",
                R"(graph main
dim n in [1, 8]

input %x: f32[2, 1, n, 34]

buffer %y: f32[1, n, 67] output
%y.part: f32[1, n, 34] in %y strides [67*n, 67, 1] = pointwise as y from "gather", "slice" {
  %0 = load %x[34*i1 + i2]
  store %0
}
%y.part.1: f32[1, n, 33] in %y at 34 strides [67*n, 67, 1] = pointwise as y.1 from "gather", "slice" {
  %0 = load %x[34*n + 34*i1 + i2]
  store %0
}

output %y
)");
}

TEST(ForwardCopies, ChainsAreFollowed) {
  expect_passes("forward_copies", R"(graph main
dim n in [1, 8]

input %x: f32[n, 4]

%t: f32[4, n] = pointwise {
  %0 = load %x[4*i1 + i0]
  store %0
}
%u: f32[n, 4] = pointwise {
  %0 = load %t[n*i1 + i0]
  store %0
}
%y: f32[n, 2] output = pointwise {
  %0 = load %u[4*i0 + i1 + 1]
  store %0
}

output %y
)",
                R"(graph main
dim n in [1, 8]

input %x: f32[n, 4]

%y: f32[n, 2] output = pointwise {
  %0 = load %x[4*i0 + i1 + 1]
  store %0
}

output %y
)");
}

TEST(ForwardCopies, WhatSomebodyElseReadsStays) {
  expect_unchanged("forward_copies", R"(graph main

input %x: f32[4, 8]

%t: f32[8, 4] = pointwise {
  %0 = load %x[i0 + 8*i1]
  store %0
}
%y: f32[8] output = pointwise {
  %0 = load %t[4*i0]
  store %0
}
%z: f32[8] output = pointwise {
  %0 = load %t[4*i0 + 1]
  %1 = neg %0
  store %1
}

output %y
output %z
)");
}

TEST(ForwardCopies, SourceThatChangesInBetweenStays) {
  expect_unchanged("forward_copies", R"(graph main

input %x: f32[4, 8]

%s: f32[4, 8] = pointwise {
  %0 = load %x
  %1 = neg %0
  store %1
}
%t: f32[8, 4] = pointwise {
  %0 = load %s[i0 + 8*i1]
  store %0
}
%s2 mutates %s = pointwise {
  %0 = load %x
  store %0
}
%y: f32[8] output = pointwise {
  %0 = load %t[4*i0]
  store %0
}
%z: f32[4, 8] output = pointwise {
  %0 = load %s2
  store %0
}

output %y
output %z
)");
}

TEST(ForwardCopies, MorePartsThanAllowedStayTwoCopies) {
  expect_unchanged("forward_copies{max_parts=3}", R"(graph main
dim n in [1, 8]

input %x: f32[4, n, 3]

%t: f32[n, 4, 3] = pointwise {
  %0 = load %x[3*n*i1 + 3*i0 + i2]
  store %0
}
%y: f32[n, 11] output = pointwise {
  %0 = load %t[12*i0 + i1]
  store %0
}

output %y
)");
}

}  // namespace
}  // namespace braid::passes
