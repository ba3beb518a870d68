// An input that a step overwrites: descriptions of the program say so, and every step begins with the given
// values.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/cli/braid_process.h"

namespace braid::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// %a is summed where the caller keeps it; %b is only read; %cache grows in place.
constexpr const char* kWritten = R"(graph written
ranks 2
group @g = [0, 1]
input %a: f32[4]
input %b: f32[4]
input %cache: f32[4]
%a.1 mutates %a = all_reduce sum @g (%a) as ar
%a.2 mutates %a.1 = wait ar
%d: f32[4] output = pointwise { %0 = load %a.2 %1 = load %b %2 = add %0, %1 store %2 }
%grown: f32[4] output alias $cache = pointwise { %0 = load %cache %1 = add %0, %0 store %1 }
output %d
output %grown
)";

class WrittenInputs : public ::testing::TestWithParam<const char*> {
 protected:
  std::string program() const {
    const Folder folder;
    return compiled(std::string("written_") + GetParam(),
                    {folder.file("written.braid", kWritten), "--target", one_architecture(GetParam())});
  }
};
INSTANTIATE_TEST_SUITE_P(Targets, WrittenInputs, ::testing::Values("cpu", "cuda"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(WrittenInputs, AreMarkedInManifestHeaderAndTable) {
  const nlohmann::json inputs =
      nlohmann::json::parse(read_text(fs::path(program()) / "manifest.json"))["inputs"];
  ASSERT_EQ(inputs.size(), 3u);
  EXPECT_TRUE(inputs[0].value("written", false));
  EXPECT_FALSE(inputs[1].contains("written"));
  EXPECT_TRUE(inputs[2].value("written", false));
  std::string header, source;
  for (const fs::directory_entry& file : fs::directory_iterator(program())) {
    const std::string extension = file.path().extension().string();
    if (extension == ".h") header = read_text(file.path());
    if (extension == ".cc" || extension == ".cu") source = read_text(file.path());
  }
  EXPECT_THAT(header, HasSubstr("input  a: f32 [4], written by a step\n"));
  EXPECT_THAT(header, HasSubstr("input  b: f32 [4]\n"));
  EXPECT_THAT(source, HasSubstr("{\"a\", BRAID_F32, 1, kInput0Sizes, 16, -1, 1, nullptr}"));
  EXPECT_THAT(source, HasSubstr("{\"b\", BRAID_F32, 1, kInput1Sizes, 16, -1, 0, nullptr}"));
}

TEST_P(WrittenInputs, AreWhatWasGivenInEveryStep) {
  const Folder folder;
  write_floats(folder / "a.npy", {4}, {1, 2, 3, 4});
  write_floats(folder / "b.npy", {4}, {10, 20, 30, 40});
  for (const char* ranks : {"processes", "threads"}) {
    std::vector<std::string> arguments = {"run",      program(), "--repeat", "3",
                                          "--warmup", "1",       "-o",       folder / ranks};
    for (const char* input : {"a=a.npy", "b=b.npy", "cache=b.npy"}) {
      const std::string text = input;
      const std::size_t equal = text.find('=') + 1;
      arguments.insert(arguments.end(), {"--input", text.substr(0, equal) + (folder / text.substr(equal))});
    }
    if (std::string(ranks) == "threads") arguments.push_back("--ranks-as-threads");
    const ProcessResult result = braid(arguments);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(read_floats(folder / ranks + "/rank1/d.npy"), ElementsAre(12, 24, 36, 48));
    EXPECT_THAT(read_floats(folder / ranks + "/rank1/grown.npy"), ElementsAre(20, 40, 60, 80));
  }
}

TEST_P(WrittenInputs, AreTheSameForProgramAndInterpreter) {
  const Folder folder;
  const ProcessResult result = braid({"verify", folder.file("written.braid", kWritten), "--target",
                                      GetParam(), "--ranks-as-threads", "--limit", "0"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
}

TEST(Explain, SaysWhichInputsAStepWrites) {
  const Folder folder;
  const ProcessResult result = braid({"explain", folder.file("written.braid", kWritten)});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("input   a: f32[4], written by a step\n"));
  EXPECT_THAT(result.out, HasSubstr("input   b: f32[4]\n"));
  EXPECT_THAT(result.out, HasSubstr("input   cache: f32[4], written by a step\n"));
}

}  // namespace
}  // namespace braid::test
