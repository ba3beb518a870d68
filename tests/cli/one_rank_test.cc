// Programs of one rank that have collectives all the same.
#include <gmock/gmock.h>

#include "tests/cli/braid_process.h"

namespace braid::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kCollectives = R"(graph alone
ranks 1
group @g = [0]
input %x: f32[2, 3]
%a: f32[2, 3] comm(symmetric, @g) = pointwise { %0 = load %x store %0 }
%sum: f32[2, 3] comm(symmetric, @g) = all_reduce sum @g (%a)
%sum.1 mutates %sum = wait sum
release sum
%place: f32[2, 3] comm(registered, @g) = pointwise { %0 = load %x %1 = neg %0 store %1 }
%place.1 mutates %place = all_reduce avg @g (%place) as in_place
%place.2 mutates %place.1 = wait in_place
%all: f32[2, 3] = all_gather @g (%x)
%all.1 mutates %all = wait all
%part: f32[2, 3] = reduce_scatter max @g (%x) blocking
%copy: f32[2, 3] = broadcast @g (%x) root 0
%copy.1 mutates %copy = wait copy
%swapped: f32[2, 3] = all_to_all @g (%x)
%swapped.1 mutates %swapped = wait swapped
output %sum.1
output %place.2
output %all.1
output %part
output %copy.1
output %swapped.1
)";

class OneRank : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Targets, OneRank, ::testing::Values("cpu", "cuda"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(OneRank, RunsEveryKindOfCollectiveAsTheInterpreterDoes) {
  const Folder folder;
  const ProcessResult result =
      braid({"verify", folder.file("alone.braid", kCollectives), "--target", GetParam(), "--limit", "0"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("equal  rank 0 swapped.1"));
  EXPECT_THAT(result.out, HasSubstr("the program and the interpreter agree"));
}

}  // namespace
}  // namespace braid::test
