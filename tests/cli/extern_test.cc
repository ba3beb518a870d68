// Operators and kernels from a plug-in (examples/plugin/row_sort.cc), through the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/braid_process.h"
#include "tests/cli/paths.h"
#include "tests/paths.h"

namespace braid::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kScores = paths::source("examples/plugin/scores.onnx");

TEST(Extern, OperatorsOfPluginsAreListed) {
  EXPECT_THAT(braid({"ops"}).out, Not(HasSubstr("RowSort")));
  EXPECT_THAT(braid({"ops", "--plugin", paths::row_sort()}).out, HasSubstr("com.example    RowSort"));
}

TEST(Extern, WithoutItsPluginTheOperatorIsNotSupported) {
  const ProcessResult result = braid({"verify", kScores});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("com.example.RowSort-1 (node '/RowSort')"));
}

// In a text, which no operator's lowering has checked.
TEST(Extern, CallsThatTheKernelCannotTakeAreRefused) {
  const Folder folder;
  for (const char* call : {"%y: f32[2] = extern \"row_sort\" reads(%x)",
                           "%y: f64[2] = extern \"row_sort\" reads(%x) attributes(descending = 0)"}) {
    const std::string text =
        folder.file("call.braid", std::string("graph g\ninput %x: f32[2]\n") + call + "\noutput %y\n");
    const ProcessResult result = braid({"verify", text, "--plugin", paths::row_sort()});
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_THAT(result.err, HasSubstr("BR0601"));
  }
}

class ExternTargets : public ::testing::TestWithParam<const char*> {};

TEST_P(ExternTargets, AgreeWithTheInterpreter) {
  const ProcessResult result =
      braid({"verify", kScores, "--plugin", paths::row_sort(), "--target", GetParam(), "--dim", "rows=0..9"});
  EXPECT_EQ(result.exit_code, 0) << result.err << result.out;
}

// The program folder is complete: it runs without the plug-in.
TEST_P(ExternTargets, ProgramsRunWithoutThePlugin) {
  const Folder folder;
  const std::string program = folder / "program", out = folder / "out", x = folder / "x.npy";
  const ProcessResult compiled = braid({"compile", kScores, "--plugin", paths::row_sort(), "--target",
                                        one_architecture(GetParam()), "--dim", "rows=1..8", "-o", program});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  write_floats(x, {2, 4}, {1, 0, 0, 0, 0, 0, 2, 0});
  const ProcessResult result = braid({"run", program, "--input", "x=" + x, "-o", out});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  // Rows 0 and 2 of `weights` (make_model.py) are -5 2 -2 5 1 -3 4 0 and -3 4 0 -4 3 -1 -5 2, in fourths.
  EXPECT_THAT(read_floats(out + "/y.npy"), ElementsAre(1.25f, 1.0f, 0.5f, 2.0f, 1.5f, 1.0f));
}

INSTANTIATE_TEST_SUITE_P(Extern, ExternTargets, ::testing::Values("cpu", "cuda"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace braid::test
