// braid --bind: graph inputs that become constants.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/braid_process.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Bind, MakesConstantsOfNumbersListsAndFiles) {
  const std::string add = model("ops/add") + "/model.onnx";
  const Folder folder;
  const ProcessResult whole = braid({"run", add, "--random", "1", "-o", folder / "whole"});
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  std::string list;
  for (int k = 0; k < 6; ++k)
    list += std::string(k % 3 == 0 ? (k == 0 ? "[[" : "],[") : ",") + "[1,2.5, 3, -4]";
  for (const std::string& value : {folder / "whole/y.npy", list + "]]"}) {
    const ProcessResult result = braid({"run", add, "--bind", "b=" + value, "--random", "2", "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const nlohmann::json json = nlohmann::json::parse(result.out);
    ASSERT_EQ(json["inputs"].size(), 1U) << json.dump(2);
    EXPECT_EQ(json["inputs"][0]["name"], "a");
    const std::string python = python_of_the_project();
    if (python.empty()) continue;
    const ProcessResult verified =
        braid({"verify", add, "--bind", "b=" + value, "--random", "2", "--reference", "onnxruntime"}, {},
              {"BRAID_PYTHON=" + python});
    EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
  }
}

TEST(Bind, RefusesWhatIsNoValue) {
  const std::string add = model("ops/add") + "/model.onnx";
  for (const char* text :
       {"b", "b=", "=1", "b=x", "b=[1,2", "b=[1,[2]]", "b=[[1],2]", "b=[[1],[2,3]]", "b=1,2", "b=1 2",
        "b=[1,]", "b=[,]", "b=]", "b=--1", "b=1e", "b=truely", "b=[[[[]]]"}) {
    const ProcessResult result = braid({"run", add, "--bind", text, "--random", "1"});
    EXPECT_EQ(result.exit_code, 2) << text;
    EXPECT_THAT(result.err, HasSubstr("BR0003: --bind " + std::string(text) + ": malformed")) << text;
  }
  const auto error = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"run", add, "--random", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProcessResult result = braid(arguments);
    EXPECT_EQ(result.exit_code, 2);
    return result.err;
  };
  EXPECT_THAT(error({"--bind", "c=1"}), HasSubstr("BR0313"));
  EXPECT_THAT(error({"--bind", "b=[1,2]"}), AllOf(HasSubstr("BR0313"), HasSubstr("shape [2]")));
  EXPECT_THAT(error({"--bind", "b=[]"}), HasSubstr("BR0313"));
  EXPECT_THAT(error({"--bind", "b=1", "--bind", "b=1"}), HasSubstr("--bind b is given twice"));
}

}  // namespace
}  // namespace braid::test
