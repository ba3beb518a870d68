// Models that PyTorch's ranks exported (examples/from_pytorch), as a user has them: one file per rank,
// compiled, run on as many ranks and compared with what the ranks computed in PyTorch, and checked.
#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/cli/braid_process.h"
#include "tests/paths.h"

namespace braid::test {
namespace {

using ::testing::HasSubstr;

class ExportedRanks : public testing::TestWithParam<std::string> {
 protected:
  const std::string folder_ = paths::source("tests/corpus/exported/" + GetParam());

  std::string ranks() const {
    int count = 0;
    while (fs::exists(folder_ + "/model.rank" + std::to_string(count) + ".onnx")) ++count;
    return std::to_string(count);
  }

  std::vector<std::string> dims() const {
    std::vector<std::string> arguments;
    if (!fs::exists(folder_ + "/dims.json")) return arguments;
    const nlohmann::json bounds = nlohmann::json::parse(read_text(folder_ + "/dims.json"));
    for (const auto& [name, limits] : bounds.items()) {
      arguments.insert(arguments.end(),
                       {"--dim", name + "=" + limits.at(0).dump() + ".." + limits.at(1).dump()});
    }
    return arguments;
  }
};

TEST_P(ExportedRanks, ComputeWhatPyTorchDid) {
  for (const char* target : {"interpreter", "cpu"}) {
    const ProcessResult result =
        braid({"test", "--ranks", ranks(), "--target", target, "--rtol", "1e-4", "--atol", "1e-5", folder_});
    EXPECT_EQ(result.exit_code, 0) << target << '\n' << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("1 passed, 0 failed, 0 refused\n")) << target;
  }
}

TEST_P(ExportedRanks, AgreeAndCannotDeadlock) {
  std::vector<std::string> arguments = {"check", folder_ + "/model.rank{rank}.onnx", "--ranks", ranks()};
  const std::vector<std::string> sizes = dims();
  arguments.insert(arguments.end(), sizes.begin(), sizes.end());
  const ProcessResult result = braid(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("certificate: " + ranks() + " ranks agree and cannot deadlock"));
}

// All cases of several ranks in the folder, so that a new one is not forgotten.
std::vector<std::string> cases() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(paths::source("tests/corpus/exported"))) {
    if (fs::exists(entry.path() / "model.rank0.onnx")) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}
INSTANTIATE_TEST_SUITE_P(Models, ExportedRanks, testing::ValuesIn(cases()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace braid::test
