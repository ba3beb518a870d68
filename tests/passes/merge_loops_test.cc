#include "passes/merge_loops.h"

#include "tests/passes/text_pass.h"

namespace braid::passes {
namespace {

using test::expect_passes;
using test::expect_unchanged;

TEST(MergeLoops, ContiguousDimensionsBecomeOne) {
  expect_passes("merge_loops", R"(graph main
dim b in [1, 8]

input %x: f32[b, 1, 768]

%y: f32[b, 1, 768] = pointwise {
  %0 = load %x
  %1 = neg %0
  store %1
}

output %y
)",
                R"(graph main
dim b in [1, 8]

input %x: f32[b, 1, 768]

%y: f32[b, 1, 768] = pointwise [768*b] {
  %0 = load %x[i0]
  %1 = neg %0
  store %1 at i0
}

output %y
)");
}

TEST(MergeLoops, BroadcastKeepsItsDimension) {
  expect_passes("merge_loops", R"(graph main

input %x: f32[4, 5, 6]
input %bias: f32[6]

%y: f32[4, 5, 6] = pointwise {
  %0 = load %x
  %1 = load %bias[i2]
  %2 = add %0, %1
  store %2
}

output %y
)",
                R"(graph main

input %x: f32[4, 5, 6]
input %bias: f32[6]

%y: f32[4, 5, 6] = pointwise [20, 6] {
  %0 = load %x[6*i0 + i1]
  %1 = load %bias[i1]
  %2 = add %0, %1
  store %2 at 6*i0 + i1
}

output %y
)");
}

TEST(MergeLoops, ReducedDimensionsMergeAmongEachOther) {
  expect_passes("merge_loops", R"(graph main

input %x: f32[4, 5, 6]

%y: f32[4] = reduction sum over [5, 6] {
  %0 = load %x
  store %0
}

output %y
)",
                R"(graph main

input %x: f32[4, 5, 6]

%y: f32[4] = reduction sum over [30] {
  %0 = load %x[30*i0 + i1]
  store %0
}

output %y
)");
}

TEST(MergeLoops, MembersOfAFusedNodeKeepACommonOuterSpace) {
  expect_passes("merge_loops", R"(graph main

input %x: f32[4, 5, 6]
input %z: f32[4]

fused node {
  %m: f32[4, 5] = reduction max over [6] {
    %0 = load %x
    store %0
  }
  %y: f32[4, 5, 6] = pointwise {
    %0 = load %x
    %1 = load %m[5*i0 + i1]
    %2 = sub %0, %1
    store %2
  }
}
fused other {
  %n: f32[4, 5] = reduction max over [6] {
    %0 = load %x
    store %0
  }
  %w: f32[4, 5] = pointwise {
    %0 = load %z[i0]
    %1 = load %n
    %2 = sub %0, %1
    store %2
  }
}

output %y
output %w
)",
                R"(graph main

input %x: f32[4, 5, 6]
input %z: f32[4]

fused node {
  %m: f32[4, 5] = reduction max [20] over [6] {
    %0 = load %x[6*i0 + i1]
    store %0 at i0
  }
  %y: f32[4, 5, 6] = pointwise [20, 6] {
    %0 = load %x[6*i0 + i1]
    %1 = load %m[i0]
    %2 = sub %0, %1
    store %2 at 6*i0 + i1
  }
}
fused other {
  %n: f32[4, 5] = reduction max over [6] {
    %0 = load %x
    store %0
  }
  %w: f32[4, 5] = pointwise {
    %0 = load %z[i0]
    %1 = load %n
    %2 = sub %0, %1
    store %2
  }
}

output %y
output %w
)");
}

TEST(MergeLoops, TransposeStays) {
  expect_unchanged("merge_loops", R"(graph main

input %x: f32[4, 5]

%y: f32[5, 4] = pointwise {
  %0 = load %x[i0 + 5*i1]
  store %0
}

output %y
)");
}

}  // namespace
}  // namespace braid::passes
