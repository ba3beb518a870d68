// A plain model on several ranks: --devices, --tp and --plan, alike in all commands.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/braid_process.h"

namespace braid::test {
namespace {

using ::testing::HasSubstr;

using Arguments = std::vector<std::string>;

const std::string kCase = "ops/gemm_all_attributes";

TEST(Split, PlainCasesPassOnSeveralRanks) {
  for (const char* target : {"cpu", "interpreter"}) {
    const ProcessResult result =
        braid({"test", model("transformers/gpt2_static_prefill"), model("transformers/llama_prefill"), "--tp",
               "2", "--target", target});
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("2 passed, 0 failed, 0 refused\n"));
  }
}

TEST(Split, CasesOfSeveralRanksAreNotSplit) {
  const ProcessResult result = braid({"test", model("collectives/row_split_linear"), "--tp", "2"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("BR0401"));
}

TEST(Split, OneLineTellsHowManyDevicesAreUsed) {
  const Folder folder;
  const std::string file = model(kCase) + "/model.onnx";
  const ProcessResult result = braid(
      {"compile", file, "-o", folder / "out", "--devices", "2", "--machine", "h100", "--emit", "source"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("1 device: "));
  EXPECT_THAT(result.out, HasSubstr("of 2 allowed, more are not faster"));
}

// Sizes of 5, 7 and 3.
TEST(Split, RanksThatDivideNothingAreRefused) {
  const Folder folder;
  const ProcessResult result = braid({"compile", model("ops/matmul_2d") + "/model.onnx", "-o", folder / "out",
                                      "--tp", "2", "--emit", "plan"});
  EXPECT_EQ(result.exit_code, 3) << result.out << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("BR0487"), HasSubstr("would do: 3, 5, 7;")));
}

TEST(Split, APlanIsWrittenAndReadByAllCommands) {
  const Folder folder;
  const std::string file = model("transformers/gpt2_static_prefill") + "/model.onnx";
  const ProcessResult wrote =
      braid({"compile", file, "-o", folder / "out", "--name", "m", "--tp", "2", "--emit", "plan"});
  ASSERT_EQ(wrote.exit_code, 0) << wrote.out << wrote.err;
  EXPECT_THAT(wrote.out, HasSubstr("2 devices: "));
  const std::string plan = folder / "out/m.plan";
  std::ifstream stream(plan);
  const std::string text(std::istreambuf_iterator<char>(stream), {});
  EXPECT_THAT(text, HasSubstr("ranks 2"));
  EXPECT_THAT(text, HasSubstr("S("));
  for (const char* command : {"verify", "check", "run", "explain"}) {
    const ProcessResult result = braid({command, file, "--plan", plan});
    EXPECT_EQ(result.exit_code, 0) << command << result.out << result.err;
  }
  const ProcessResult verified = braid({"verify", file, "--plan", plan});
  EXPECT_THAT(verified.out, HasSubstr("equal  rank 1"));
  const ProcessResult explained = braid({"explain", file, "--tp", "2"});
  EXPECT_THAT(explained.out, HasSubstr("Splits that were tried"));
  EXPECT_THAT(explained.out, HasSubstr("Conversions"));
  EXPECT_THAT(explained.out, HasSubstr("gap"));
  EXPECT_THAT(explained.out, HasSubstr("2 ranks"));
}

// A step takes and returns the heads of its rank; whoever compares with the plain model is told.
TEST(Split, CachesMayStayInParts) {
  const Folder folder;
  const std::string file = model("transformers/gpt2_decode") + "/model.onnx";
  const Arguments dims = {"--dim", "batch=2", "--dim", "past_sequence=1..8"};
  const auto with = [&](Arguments arguments) {
    arguments.insert(arguments.end(), dims.begin(), dims.end());
    return braid(arguments);
  };
  const auto inputs = [&](const Arguments& more) {
    Arguments arguments = {"compile", file,     "-o",     folder / "out", "--tp",
                           "2",       "--emit", "source", "--name",       "m"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProcessResult result = with(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::ifstream manifest(folder / "out/manifest.json");
    return nlohmann::json::parse(manifest)["inputs"];
  };
  const auto heads = [](const nlohmann::json& inputs) {
    for (const nlohmann::json& input : inputs) {
      if (input["shape"].size() == 4) return input["shape"][1].get<int>();
    }
    return 0;
  };
  const int whole = heads(inputs({})), part = heads(inputs({"--split-caches"}));
  EXPECT_GT(part, 0);
  EXPECT_EQ(whole, 2 * part);
  EXPECT_EQ(with({"run", file, "--tp", "2", "--split-caches"}).exit_code, 0);
  const ProcessResult verified = with({"verify", file, "--tp", "2", "--split-caches"});
  EXPECT_EQ(verified.exit_code, 2);
  EXPECT_THAT(verified.err, AllOf(HasSubstr("BR0484"), HasSubstr("a rank has only a part of the input")));
  EXPECT_EQ(with({"verify", file, "--tp", "2"}).exit_code, 0);
}

TEST(Split, RequestsThatContradictEachOtherAreRefused) {
  const std::string file = model(kCase) + "/model.onnx";
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--devices", "2", "--tp", "2"},
                                               {"--tp", "2", "--ranks", "2"},
                                               {"--tp", "2", "--plan", "x"}}) {
    std::vector<std::string> arguments = {"check", file};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProcessResult result = braid(arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("BR0484"));
  }
}

}  // namespace
}  // namespace braid::test
