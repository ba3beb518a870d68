#include "passes/sink_releases.h"

#include "tests/passes/text_pass.h"

namespace braid::passes {
namespace {

using test::expect_passes;
using test::expect_unchanged;

TEST(SinkReleases, GoesToTheNextStartOfItsGroupOrToTheEnd) {
  expect_passes("sink_releases{may_grow_memory=true}", R"(graph main
ranks 2
group @all = [0, 1]

input %x: f32[16]

%c: f32[16] comm(symmetric, @all) = pointwise {
  %0 = load %x
  store %0
}
%c.1 mutates %c = all_reduce sum @all (%c) as ar0
%c.2 mutates %c.1 = wait ar0
release ar0
%d: f32[16] comm(symmetric, @all) = pointwise {
  %0 = load %c.2
  %1 = exp %0
  store %1
}
%d.1 mutates %d = all_reduce sum @all (%d) as ar1
%d.2 mutates %d.1 = wait ar1
release ar1
%y: f32[16] = pointwise {
  %0 = load %d.2
  %1 = exp %0
  store %1
}

output %y
)",
                R"(graph main
ranks 2
group @all = [0, 1]

input %x: f32[16]

%c: f32[16] comm(symmetric, @all) = pointwise {
  %0 = load %x
  store %0
}
%c.1 mutates %c = all_reduce sum @all (%c) as ar0
%c.2 mutates %c.1 = wait ar0
%d: f32[16] comm(symmetric, @all) = pointwise {
  %0 = load %c.2
  %1 = exp %0
  store %1
}
release ar0
%d.1 mutates %d = all_reduce sum @all (%d) as ar1
%d.2 mutates %d.1 = wait ar1
%y: f32[16] = pointwise {
  %0 = load %d.2
  %1 = exp %0
  store %1
}
release ar1

output %y
)");
}

TEST(SinkReleases, StopsBeforeTheBytesAreWrittenAgain) {
  expect_passes("sink_releases{may_grow_memory=true}", R"(graph main
ranks 2
group @all = [0, 1]

input %x: f32[16]

%c: f32[16] comm(symmetric, @all) = pointwise {
  %0 = load %x
  store %0
}
%c.1 mutates %c = all_reduce sum @all (%c) as ar0
%c.2 mutates %c.1 = wait ar0
release ar0
%y: f32[16] = pointwise {
  %0 = load %c.2
  store %0
}
%c.3 mutates %c.2 = pointwise {
  %0 = load %x
  store %0
}
%z: f32[16] = pointwise {
  %0 = load %c.3
  store %0
}

output %y
output %z
)",
                R"(graph main
ranks 2
group @all = [0, 1]

input %x: f32[16]

%c: f32[16] comm(symmetric, @all) = pointwise {
  %0 = load %x
  store %0
}
%c.1 mutates %c = all_reduce sum @all (%c) as ar0
%c.2 mutates %c.1 = wait ar0
%y: f32[16] = pointwise {
  %0 = load %c.2
  store %0
}
release ar0
%c.3 mutates %c.2 = pointwise {
  %0 = load %x
  store %0
}
%z: f32[16] = pointwise {
  %0 = load %c.3
  store %0
}

output %y
output %z
)");
}

TEST(SinkReleases, DoesNotMoveWhereMemoryWouldGrow) {
  expect_unchanged("sink_releases", R"(graph main
ranks 2
group @all = [0, 1]

input %x: f32[16]

%c: f32[16] comm(symmetric, @all) = pointwise {
  %0 = load %x
  store %0
}
%c.1 mutates %c = all_reduce sum @all (%c) as ar0
%c.2 mutates %c.1 = wait ar0
%a: f32[16] = pointwise {
  %0 = load %c.2
  store %0
}
release ar0
%d: f32[16] comm(symmetric, @all) = pointwise {
  %0 = load %a
  store %0
}
%d.1 mutates %d = all_reduce sum @all (%d) as ar1
%d.2 mutates %d.1 = wait ar1
%y: f32[16] = pointwise {
  %0 = load %d.2
  store %0
}
release ar1

output %y
)");
}

}  // namespace
}  // namespace braid::passes
