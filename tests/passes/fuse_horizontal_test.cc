#include "passes/fuse_horizontal.h"

#include "tests/passes/text_pass.h"

namespace braid::passes {
namespace {

using test::expect_passes;
using test::expect_unchanged;

TEST(FuseHorizontal, ReadersOfOneBufferShareItsRead) {
  expect_passes("fuse_horizontal", R"(graph main

input %x: f32[16, 16]

%a: f32[16, 16] = pointwise {
  %0 = load %x
  %1 = exp %0
  store %1
}
%b: f32[16, 16] = pointwise {
  %0 = load %x
  %1 = neg %0
  store %1
}

output %a
output %b
)",
                R"(graph main

input %x: f32[16, 16]

fused fused_b {
  %a: f32[16, 16] = pointwise {
    %0 = load %x
    %1 = exp %0
    store %1
  }
  %b: f32[16, 16] = pointwise {
    %0 = load %x
    %1 = neg %0
    store %1
  }
}

output %a
output %b
)");
}

constexpr const char* kPrologue = R"(graph main
ranks 2
group @all = [0, 1]

input %x: f32[16, 16]

%c: f32[16, 16] comm(symmetric, @all) = pointwise {
  %0 = load %x
  store %0
}
%a: f32[16, 16] = pointwise {
  %0 = load %x
  %1 = exp %0
  store %1
}
%c.1 mutates %c = all_reduce sum @all (%c) as ar
%c.2 mutates %c.1 = wait ar
release ar

output %a
output %c.2
)";

TEST(FuseHorizontal, CopyInFrontOfACollectiveStaysAlone) { expect_unchanged("fuse_horizontal", kPrologue); }

TEST(FuseHorizontal, UnlessNobodyOverlaps) {
  EXPECT_NE(test::after_passes("fuse_horizontal{keep_prologues=false}", kPrologue).find("fused"),
            std::string::npos);
}

TEST(FuseHorizontal, OtherSpacesNoSharedReadsAndTooManyMembersStayApart) {
  expect_unchanged("fuse_horizontal{max_members=1}", R"(graph main

input %x: f32[16, 16]

%a: f32[16, 16] = pointwise {
  %0 = load %x
  store %0
}
%b: f32[16, 16] = pointwise {
  %0 = load %x
  %1 = neg %0
  store %1
}

output %a
output %b
)");
  expect_unchanged("fuse_horizontal", R"(graph main

input %x: f32[16, 16]
input %z: f32[16, 16]

%a: f32[16, 16] = pointwise {
  %0 = load %x
  store %0
}
%b: f32[16] = pointwise {
  %0 = load %x[16*i0]
  store %0
}
%c: f32[16, 16] = pointwise {
  %0 = load %z
  store %0
}

output %a
output %b
output %c
)");
}

TEST(FuseHorizontal, DependentLoopsAreNotIndependent) {
  expect_unchanged("fuse_horizontal", R"(graph main

input %x: f32[16, 16]
input %w: f32[16, 16]

%a: f32[16, 16] = pointwise {
  %0 = load %x
  store %0
}
%g: f32[16, 16] = gemm %a, %w
%b: f32[16, 16] = pointwise {
  %0 = load %x
  %1 = load %g
  %2 = add %0, %1
  store %2
}

output %b
)");
}

}  // namespace
}  // namespace braid::passes
