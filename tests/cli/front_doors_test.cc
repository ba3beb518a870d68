// Whatever a path leads to, each command answers at once and writes nothing. Files that the command does not
// read give a numbered error. (tests/driver/front_doors_test.cc gives thousands of small files to the readers
// themselves.)
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/cli/braid_process.h"

namespace braid::test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using namespace std::string_literals;

constexpr const char* kDoorText =
    "graph twice\ninput %x: f32[2]\n%y: f32[2] output = pointwise { %0 = load %x %1 = add %0, %0 store %1 "
    "}\noutput %y\n";

// FILE is what is read, TEXT a good program, PROGRAM the same compiled, OUT a folder that must not appear.
struct Door {
  const char* name;
  std::vector<std::string> arguments;
};
std::ostream& operator<<(std::ostream& out, const Door& door) { return out << door.name; }
const Door kDoors[] = {
    {"Inspect", {"inspect", "FILE"}},
    {"Compile", {"compile", "FILE", "-o", "OUT"}},
    {"CompileRanks", {"compile", "FILE", "--ranks", "2", "-o", "OUT"}},
    {"CompileToIr", {"compile", "FILE", "--emit", "ir", "-o", "OUT"}},
    {"CompileToOnnx", {"compile", "FILE", "--emit", "onnx", "-o", "OUT"}},
    {"Split", {"compile", "FILE", "--tp", "2", "--emit", "plan", "-o", "OUT"}},
    {"Run", {"run", "FILE", "--random", "1", "-o", "OUT"}},
    {"Bench", {"bench", "FILE"}},
    {"Verify", {"verify", "FILE", "--random", "1"}},
    {"Check", {"check", "FILE"}},
    {"CheckTwo", {"check", "TEXT", "FILE"}},
    {"Explain", {"explain", "FILE"}},
    {"Opt", {"opt", "FILE", "-o", "OUT"}},
    {"Test", {"test", "FILE"}},
    {"TestProgram", {"test", "FILE", "--program", "FILE"}},
    {"Input", {"run", "PROGRAM", "--input", "x=FILE", "-o", "OUT"}},
    {"Costs", {"opt", "TEXT", "--costs", "FILE", "-o", "OUT"}},
    {"Compare", {"explain", "TEXT", "--compare", "FILE"}},
    {"Plugin", {"opt", "TEXT", "--plugin", "FILE", "-o", "OUT"}},
    {"Reference", {"verify", "PROGRAM", "--random", "1", "--reference", "FILE"}},
    {"PipelineCheck", {"pipeline", "check", "FILE"}},
    {"PipelineLower", {"pipeline", "lower", "FILE", "-o", "OUT"}},
    {"PipelineSimulate", {"pipeline", "simulate", "FILE"}},
    {"PipelineShow", {"pipeline", "show", "FILE"}},
    {"PipelineCosts",
     {"pipeline", "simulate", "--schedule", "1F1B", "--ranks", "2", "--microbatches", "2", "--costs",
      "FILE"}},
};

class FrontDoors : public ::testing::TestWithParam<Door> {
 protected:
  void expect_refused(const std::string& path) const {
    SCOPED_TRACE(path);
    const std::string text = folder_.file("twice.braid", kDoorText);
    const std::vector<std::string> before = folder_.names();
    std::vector<std::string> arguments = GetParam().arguments;
    for (std::string& argument : arguments) {
      if (const std::size_t at = argument.find("FILE"); at != std::string::npos)
        argument.replace(at, 4, path);
      if (argument == "TEXT") argument = text;
      if (argument == "PROGRAM") argument = compiled("front_doors", {text});
      if (argument == "OUT") argument = folder_ / "out";
    }
    const ProcessResult result = braid(arguments, {}, {}, {}, std::chrono::seconds(100));
    // A case that is refused is a verdict of `test`.
    EXPECT_THAT(result.exit_code, AnyOf(1, 2, 3, 4, 5)) << result.out << result.err;
    EXPECT_TRUE(result.exit_code != 1 || arguments[0] == "test") << result.out << result.err;
    EXPECT_THAT(result.out + result.err, HasSubstr("BR0"));
    EXPECT_EQ(folder_.names(), before);
  }
  const Folder folder_;
};
INSTANTIATE_TEST_SUITE_P(Of, FrontDoors, ::testing::ValuesIn(kDoors),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(FrontDoors, RefuseWhatIsNoFile) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  fs::create_directory(folder_ / "empty");
  fs::create_symlink(folder_ / "loop", folder_ / "loop");
  fs::create_symlink(folder_ / "nowhere", folder_ / "dangling");
  for (const char* name : {"pipe", "empty", "loop", "dangling", "absent"}) expect_refused(folder_ / name);
  expect_refused("/dev/zero");
  expect_refused("/dev/null");
}

TEST_P(FrontDoors, RefuseFilesWithoutContent) {
  int number = 0;
  for (const std::string& content : {""s, "\n"s, "\xef\xbb\xbf"s, "# nothing\n"s, "{}"s, "\0\0\0\0"s,
                                     "\x7f"
                                     "ELF\x02\x01\x01"s,
                                     "\x93NUMPY\x01\x00"s, "PK\x05\x06"s}) {
    for (const char* ending : {".onnx", ".braid", ".json"})
      expect_refused(folder_.file(std::to_string(number++) + ending, content));
  }
  for (const char* manifest : {"", "{}", "[]", "null", "{\"files\": []}", "{\"unfinished\": 1}"}) {
    const std::string program = folder_ / ("program" + std::to_string(number++));
    fs::create_directory(program);
    folder_.file(fs::path(program).filename().string() + "/manifest.json", manifest);
    expect_refused(program);
  }
}

}  // namespace
}  // namespace braid::test
