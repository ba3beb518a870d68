#include "passes/fuse_vertical.h"

#include "tests/passes/text_pass.h"

namespace braid::passes {
namespace {

using test::expect_passes;
using test::expect_unchanged;

TEST(FuseVertical, SoftmaxIsOneNode) {
  expect_passes("fuse_vertical", R"(graph main
dim n in [1, 64]

input %x: f32[n, 16]

%m: f32[n] = reduction max over [16] {
  %0 = load %x
  store %0
}
%e: f32[n, 16] = pointwise {
  %0 = load %x
  %1 = load %m[i0]
  %2 = sub %0, %1
  %3 = exp %2
  store %3
}
%s: f32[n] = reduction sum over [16] {
  %0 = load %e
  store %0
}
%y: f32[n, 16] = pointwise {
  %0 = load %e
  %1 = load %s[i0]
  %2 = div %0, %1
  store %2
}

output %y
)",
                R"(graph main
dim n in [1, 64]

input %x: f32[n, 16]

fused fused_y {
  %m: f32[n] = reduction max over [16] {
    %0 = load %x
    store %0
  }
  %e: f32[n, 16] = pointwise {
    %0 = load %x
    %1 = load %m[i0]
    %2 = sub %0, %1
    %3 = exp %2
    store %3
  }
  %s: f32[n] = reduction sum over [16] {
    %0 = load %e
    store %0
  }
  %y: f32[n, 16] = pointwise {
    %0 = load %e
    %1 = load %s[i0]
    %2 = div %0, %1
    store %2
  }
}

output %y
)");
}

TEST(FuseVertical, OtherFactorisationIsRewrittenOverTheFinerOne) {
  expect_passes("fuse_vertical", R"(graph main
dim b in [1, 8]
dim s in [1, 16]

input %x: f32[b*s, 32]

%m: f32[b*s] = reduction max over [32] {
  %0 = load %x
  store %0
}
%y: f32[b, s, 32] = pointwise {
  %0 = load %x[32*s*i0 + 32*i1 + i2]
  %1 = load %m[s*i0 + i1]
  %2 = sub %0, %1
  store %2
}

output %y
)",
                R"(graph main
dim b in [1, 8]
dim s in [1, 16]

input %x: f32[b*s, 32]

fused fused_y {
  %m: f32[b*s] = reduction max [b, s] over [32] {
    %0 = load %x[32*s*i0 + 32*i1 + i2]
    store %0 at s*i0 + i1
  }
  %y: f32[b, s, 32] = pointwise {
    %0 = load %x[32*s*i0 + 32*i1 + i2]
    %1 = load %m[s*i0 + i1]
    %2 = sub %0, %1
    store %2
  }
}

output %y
)");
}

TEST(FuseVertical, ConsumerMovesUpOverUnrelatedWork) {
  expect_passes("fuse_vertical", R"(graph main

input %x: f32[16, 16]
input %w: f32[16, 16]

%a: f32[16, 16] = pointwise {
  %0 = load %x
  %1 = exp %0
  store %1
}
%g: f32[16, 16] = gemm %x, %w
%y: f32[16, 16] = pointwise {
  %0 = load %a
  %1 = neg %0
  store %1
}

output %g
output %y
)",
                R"(graph main

input %x: f32[16, 16]
input %w: f32[16, 16]

fused fused_y {
  %a: f32[16, 16] = pointwise {
    %0 = load %x
    %1 = exp %0
    store %1
  }
  %y: f32[16, 16] = pointwise {
    %0 = load %a
    %1 = neg %0
    store %1
  }
}
%g: f32[16, 16] = gemm %x, %w

output %g
output %y
)");
}

TEST(FuseVertical, PathThroughAnotherNodeIsNotClosed) {
  expect_unchanged("fuse_vertical", R"(graph main

input %x: f32[16, 16]
input %w: f32[16, 16]

%a: f32[16, 16] = pointwise {
  %0 = load %x
  %1 = exp %0
  store %1
}
%g: f32[16, 16] = gemm %a, %w
%y: f32[16, 16] = pointwise {
  %0 = load %a
  %1 = load %g
  %2 = add %0, %1
  store %2
}

output %y
)");
}

TEST(FuseVertical, TransposedReadSharesNoOuterPoint) {
  expect_unchanged("fuse_vertical", R"(graph main

input %x: f32[128, 128]

%a: f32[128, 128] = pointwise {
  %0 = load %x
  %1 = exp %0
  store %1
}
%y: f32[128, 128] = pointwise {
  %0 = load %a[i0 + 128*i1]
  store %0
}

output %y
)");
}

TEST(FuseVertical, FewOuterPointsWithMuchWorkStayParallel) {
  expect_unchanged("fuse_vertical", R"(graph main

input %x: f32[2, 65536]

%a: f32[2, 65536] = pointwise {
  %0 = load %x
  %1 = exp %0
  store %1
}
%y: f32[2] = reduction sum over [65536] {
  %0 = load %a
  store %0
}

output %y
)");
}

TEST(FuseVertical, GroupsStayAsTheyAre) {
  expect_unchanged("fuse_vertical", R"(graph main

input %x: f32[16]

grouped together {
  %a: f32[16] = pointwise {
    %0 = load %x
    store %0
  }
}
%y: f32[16] = pointwise {
  %0 = load %a
  store %0
}

output %y
)");
}

TEST(FuseVertical, ProducerDoesNotMoveBehindAWait) {
  expect_unchanged("fuse_vertical", R"(graph main
ranks 2
group @all = [0, 1]

input %x: f32[16]

%c: f32[16] comm(symmetric, @all) = pointwise {
  %0 = load %x
  store %0
}
%c.1 mutates %c = all_reduce sum @all (%c) as ar
%a: f32[16] = pointwise {
  %0 = load %x
  %1 = exp %0
  store %1
}
%c.2 mutates %c.1 = wait ar
release ar
%y: f32[16] = pointwise {
  %0 = load %a
  %1 = load %c.2
  %2 = add %0, %1
  store %2
}

output %y
)");
}

TEST(FuseVertical, BufferThatACollectiveHasChangedIsNotTheProducersAnyMore) {
  expect_unchanged("fuse_vertical{keep_overlap=false}", R"(graph main
ranks 2
group @all = [0, 1]

input %x: f32[16]

%c: f32[16] comm(symmetric, @all) = pointwise {
  %0 = load %x
  store %0
}
%c.1 mutates %c = all_reduce sum @all (%c) as ar
%c.2 mutates %c.1 = wait ar
release ar
%y: f32[16] = pointwise {
  %0 = load %c.2
  store %0
}

output %y
)");
}

}  // namespace
}  // namespace braid::passes
