// Kernels of collectives on the command line: what braid explain says of them, and --force-kernel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/braid_process.h"

namespace braid::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kReduction = R"(graph main
ranks 2
group @g = [0, 1]

input %x: f32[64]

%c: f32[64] comm(symmetric, @g) = pointwise {
  %0 = load %x
  store %0
}
%c.1 mutates %c = all_reduce sum @g (%c) as ar
%c.2 mutates %c.1 = wait ar
release ar
%y: f32[64] = pointwise {
  %0 = load %c.2
  store %0
}

output %y
)";

TEST(Kernels, SaysWhichKernelEachCollectiveHasAndWhatTheOthersWouldCost) {
  const Folder folder;
  const ProcessResult result =
      braid({"explain", folder.file("r.braid", kReduction), "--json=" + (folder / "story.json")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("cheapest: two_shot would take"));
  const auto json = nlohmann::json::parse(read_text(folder / "story.json"));
  ASSERT_EQ(json["kernels"].size(), 1u);
  const auto& kernel = json["kernels"][0];
  EXPECT_EQ(kernel["kernel"], "one_shot");
  EXPECT_EQ(kernel["reason"], "cheapest");
  ASSERT_EQ(kernel["candidates"].size(), 2u);
  EXPECT_EQ(kernel["us"], kernel["candidates"][0]["us"]);
  EXPECT_LT(kernel["us"], kernel["candidates"][1]["us"]);
}

TEST(Kernels, SaysWhatWasForced) {
  const Folder folder;
  const ProcessResult result = braid({"explain", folder.file("r.braid", kReduction), "--force-kernel",
                                      "ar=two_shot:blocking", "--json=" + (folder / "story.json")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("two_shot, blocking"));
  const auto json = nlohmann::json::parse(read_text(folder / "story.json"));
  EXPECT_EQ(json["kernels"][0]["reason"], "forced");
  EXPECT_EQ(json["kernels"][0]["blocking"], true);
}

TEST(Kernels, CudaProgramsHaveKernelsOfTheirOwnWhereAskedFor) {
  const Folder folder;
  const std::string file = folder.file("r.braid", kReduction);
  const ProcessResult result = braid({"explain", file, "--target", "cuda"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("engine's choice"));
  const ProcessResult forced = braid({"explain", file, "--target", "cuda", "--force-kernel", "ar=one_shot"});
  EXPECT_EQ(forced.exit_code, 0) << forced.err;
  EXPECT_THAT(forced.out, HasSubstr("forced"));
  const ProcessResult refused = braid({"explain", file, "--target", "cuda", "--force-kernel", "ar=ring"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("BR0588"));
}

TEST(Kernels, AProgramWithAForcedKernelRuns) {
  const Folder folder;
  const std::string file = folder.file("r.braid", kReduction);
  for (const char* kernel : {"one_shot", "two_shot:blocking", "automatic"}) {
    const ProcessResult result = braid({"run", file, "--ranks", "2", "--random", "1", "--force-kernel",
                                        std::string("all_reduce=") + kernel});
    EXPECT_EQ(result.exit_code, 0) << kernel << result.err;
  }
}

}  // namespace
}  // namespace braid::test
