// Senseless input, on the command line and in the files that it names: an error by the table, in time, and
// nothing is written.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <onnx/onnx_pb.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/cli/braid_process.h"
#include "tests/cli/paths.h"
#include "tests/support/onnx_parser.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kHostileTwice =
    "graph twice\ninput %x: f32[2]\n%y: f32[2] output = pointwise { %0 = load %x %1 = add %0, %0 store %1 "
    "}\noutput %y\n";

// TEXT, OUT and PROGRAM are put in.
struct Hostile {
  const char* name;
  Arguments arguments;
  int exit_code;
  const char* says;
};
std::ostream& operator<<(std::ostream& out, const Hostile& hostile) { return out << hostile.name; }

const Hostile kHostile[] = {
    {"DimOfARunThatTheTextLacks", {"run", "TEXT", "--dim", "a=1"}, 2, "has no dimension of this name"},
    {"DimOfABenchThatTheTextLacks", {"bench", "TEXT", "--dim", "a=1"}, 2, "has no dimension of this name"},
    {"DimOfAVerifyThatTheTextLacks", {"verify", "TEXT", "--dim", "a=1"}, 2, "has no dimension of this name"},
    {"NegativeSeed", {"run", "TEXT", "--random", "-1"}, 2, "must be at least 0, got -1"},
    {"NoRandomValues",
     {"run", "TEXT", "--random-max", "0"},
     2,
     "must be a whole number of at least 1, got 0"},
    {"NegativeTolerance", {"verify", "TEXT", "--rtol", "-1"}, 2, "must be a finite number of at least 0"},
    {"ToleranceThatIsNoNumber",
     {"verify", "TEXT", "--atol", "nan"},
     2,
     "must be a finite number of at least 0"},
    {"EndlessTolerance", {"verify", "TEXT", "--rtol", "inf"}, 2, "must be a finite number of at least 0"},
    {"NegativeLimit", {"verify", "TEXT", "--limit", "-1e-5"}, 2, "must be a finite number of at least 0"},
    {"NegativeToleranceOfATest",
     {"test", "TEXT", "--rtol", "-1"},
     2,
     "must be a finite number of at least 0"},
    {"NegativeBisection",
     {"opt", "TEXT", "--bisect", "-7"},
     2,
     "must be a whole number from 0 to 1000000, got -7"},
    {"TextThatNeverEnds", {"opt", "/dev/zero"}, 5, "BR0001"},
    {"TextOfAFolder", {"opt", "/"}, 5, "BR0001"},
    {"CostsThatAreMissing", {"opt", "TEXT", "--costs", "TEXT.json"}, 5, "BR0001"},
    {"MachineThatIsMissing", {"opt", "TEXT", "--machine", "TEXT.json"}, 5, "BR0001"},
    {"TimelineThatIsMissing", {"explain", "TEXT", "--compare", "TEXT.json"}, 5, "BR0001"},
    {"CostsOfAPipelineThatAreMissing",
     {"pipeline", "simulate", "--schedule", "1f1b", "--ranks", "2", "--microbatches", "2", "--costs",
      "TEXT.json"},
     5,
     "BR0001"},
    {"NegativeMemory", {"opt", "TEXT", "--memory-cap", "-5"}, 2, "must be at least 0, got -5"},
    {"MoreMemoryThanNumbers", {"opt", "TEXT", "--memory-cap", "99999999999999999999GB"}, 2, "BR0014"},
    {"NoNameOfAFolder", {"compile", "TEXT", "-o", ""}, 2, "must not be empty"},
    {"NoNameOfAResult", {"run", "TEXT", "--random", "1", "-o", ""}, 2, "must not be empty"},
    {"OutputBelowAFile", {"compile", "TEXT", "-o", "TEXT/out"}, 5, "BR0010"},
    {"OutputBelowADevice", {"compile", "TEXT", "-o", "/dev/null/x"}, 5, "BR0010"},
    {"ResultsBelowAFile", {"run", "TEXT", "--random", "1", "-o", "TEXT/out"}, 5, "BR0010"},
    {"JsonBelowAFile", {"run", "TEXT", "--json=TEXT/out.json"}, 5, "BR0010"},
    {"InputThatNeverEnds", {"run", "TEXT", "--input", "x=/dev/zero"}, 5, "BR0001"},
    {"InputOfNothing", {"run", "TEXT", "--input", "x=/dev/null"}, 5, "BR0001"},
    {"InputOfAFolder", {"run", "TEXT", "--input", "x=/"}, 5, "BR0001"},
    {"InputOfARankThatIsNone", {"run", "TEXT", "--input", "x@-1=x.npy"}, 2, "'-1' is not a rank"},
    {"ModelThatIsADevice", {"compile", "/dev/full", "-o", "OUT"}, 5, "BR0001"},
    {"ModelWithoutAName", {"compile", "", "-o", "OUT"}, 5, "BR0001"},
    {"NoSteps", {"bench", "TEXT", "--repeat", "0"}, 2, "must be a whole number from 1 to 1000000, got 0"},
    {"MoreStepsThanNumbers", {"bench", "TEXT", "--repeat", "99999999999999999999"}, 2, "from 1 to 1000000"},
    {"MoreThreadsThanAnyMachine",
     {"run", "TEXT", "--threads", "100000000"},
     2,
     "must be a whole number from 1 to 1024"},
    {"MoreRanksThanAnyMachine",
     {"check", "TEXT", "--ranks", "1000000"},
     2,
     "must be a whole number from 1 to 1024"},
    {"NoRanksOfAPipeline",
     {"pipeline", "generate", "--schedule", "GPipe", "--ranks", "0", "--microbatches", "1"},
     2,
     "--ranks: must be a whole number of at least 1, got 0"},
    {"NoMicrobatches",
     {"pipeline", "generate", "--schedule", "GPipe", "--ranks", "1", "--microbatches", "0"},
     2,
     "--microbatches: must be a whole number of at least 1, got 0"},
    {"MoreStagesThanNumbers",
     {"pipeline", "show", "--schedule", "GPipe", "--stages", "3000000000"},
     2,
     "must be a whole number from 1 to 2147483647, got 3000000000"},
    {"StagesThatAreNoNumber", {"pipeline", "show", "--stages", "x"}, 2, "of at least 1, got x"},
    {"NegativeColumns", {"pipeline", "show", "--columns", "-1"}, 2, "of at least 1, got -1"},
    {"NegativeBudget", {"pipeline", "search", "--budget", "-1"}, 2, "of at least 0, got -1"},
    {"ShareThatIsNoNumber",
     {"compile", "TEXT", "-o", "OUT", "--conversion-share", "nan"},
     2,
     "must be a number from 0 to 100, got nan"},
    {"PassesOfNothing", {"opt", "TEXT", "--passes", ",,"}, 2, "there is no pass ''"},
    {"BraceThatStaysOpen", {"opt", "TEXT", "--passes", "plan_memory{"}, 2, "braces do not match"},
    {"PluginOfNothing", {"opt", "TEXT", "--plugin", "/dev/null"}, 2, "BR0543"},
    {"LinkWithoutBandwidth",
     {"explain", "TEXT", "--link", "1us,0GB/s"},
     2,
     "expected a latency and a bandwidth"},
    {"ShellWithoutCompletion", {"completion", "zsh"}, 2, "not in {bash}"},
};

class HostileCommandLine : public ::testing::TestWithParam<Hostile> {};
INSTANTIATE_TEST_SUITE_P(Of, HostileCommandLine, ::testing::ValuesIn(kHostile),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(HostileCommandLine, IsAnErrorByTheTableAndWritesNothing) {
  const Folder folder;
  const std::string text = folder.file("twice.braid", kHostileTwice);
  Arguments arguments = GetParam().arguments;
  for (std::string& argument : arguments) {
    if (const std::size_t at = argument.find("TEXT"); at != std::string::npos) argument.replace(at, 4, text);
    if (argument == "OUT") argument = folder / "out";
  }
  const ProcessResult result = braid(arguments, {}, {}, {}, std::chrono::seconds(60));
  EXPECT_EQ(result.exit_code, GetParam().exit_code) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr(GetParam().says));
  EXPECT_EQ(result.exit_code, code_of(result.err));
  EXPECT_THAT(folder.names(), ::testing::ElementsAre("twice.braid"));
}

TEST(Hostile, AByteOfZeroInATextIsNamedWithItsPlace) {
  using namespace std::string_literals;
  const Folder folder;
  const std::string text = folder.file("nul.braid", "graph a\0b\ninput %x: f32[2]\noutput %x\n"s);
  const ProcessResult result = braid({"compile", text, "-o", folder / "out"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, AllOf(HasSubstr("BR0501"), HasSubstr("nul.braid:1:8: unexpected byte 0x00")));
  EXPECT_THAT(folder.names(), ::testing::ElementsAre("nul.braid"));
}

TEST(Hostile, ADimensionThatAProgramLacksIsNoted) {
  const Folder folder;
  const std::string program = compiled("hostile_twice", {folder.file("twice.braid", kHostileTwice)});
  const ProcessResult result = braid({"run", program, "--dim", "rows=3"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("note: --dim rows: the program has no dimension of this name"));
}

TEST(Hostile, AFolderOfAProgramMayBeCalledAsATextIs) {
  const Folder folder;
  const std::string program = folder / "twice.braid";
  ASSERT_EQ(braid({"compile", folder.file("source.braid", kHostileTwice), "-o", program}).exit_code, 0);
  for (const std::vector<std::string>& command : {std::vector<std::string>{"run", program, "--dim", "rows=3"},
                                                  {"bench", program, "--dim", "rows=3"},
                                                  {"check", program},
                                                  {"explain", program}}) {
    const ProcessResult result = braid(command);
    EXPECT_EQ(result.exit_code, 0) << command.front() << ": " << result.err;
  }
}

TEST(Hostile, TooLittleMemoryIsTheUsersErrorWithItsNumber) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the address sanitizer ends a process that asks for too much";
#endif
  const Folder folder;
  const std::string text = folder.file("large.braid",
                                       "graph large\ninput %x: f32[99999999999999]\n%y: f32[99999999999999] "
                                       "output = pointwise { %0 = load %x %1 = "
                                       "neg %0 store %1 }\noutput %y\n");
  for (const char* command : {"run", "verify"}) {
    const ProcessResult result = braid({command, text, "--random", "1", "--json=" + (folder / "out.json")});
    EXPECT_EQ(result.exit_code, 4) << result.err;
    EXPECT_THAT(result.err, HasSubstr("error BR0019: there is not enough memory"));
    EXPECT_THAT(read_text(folder / "out.json"), HasSubstr("\"BR0019\""));
  }
}

// Loops are left to the threads that there are. The library of convolutions, whose threads compute depthwise
// ones of computed weights, calls exit(1), which would be the verdict that results differ.
TEST(Hostile, AThreadThatCannotBeStartedIsNoVerdict) {
  if (geteuid() != 0) GTEST_SKIP() << "an ordinary user has other processes, which count";
  const Folder folder;
  const std::string loop =
      compiled("hostile_many",
               {folder.file("many.braid",
                            "graph many\ninput %x: f32[1000000]\n%y: f32[1000000] output = pointwise { %0 = "
                            "load %x %1 = exp %0 store %1 }\noutput %y\n")});
  onnx::ModelProto proto;
  ASSERT_TRUE(
      onnx::OnnxParser::Parse(
          proto,
          "<ir_version: 8, opset_import: [\"\" : 17]> g (float[1, 64, 64, 64] x, float[64, 1, 3, 3] w) "
          "=> (float[1, 64, 62, 62] y) { y = Conv<group = 64>(x, w) }")
          .IsOK());
  const std::string window =
      compiled("hostile_window", {folder.file("window.onnx", proto.SerializeAsString())});
  const std::string limited =
      folder.file("limited",
                  "#!/bin/sh\nexec prlimit --nproc=1 setpriv --reuid 65431 --regid 65431 --clear-groups env "
                  "HOME=/nonexistent " +
                      paths::executable() + " \"$@\"\n");
  ASSERT_EQ(chmod(limited.c_str(), 0755), 0);
  if (braid({"--version"}, {}, {"BRAID_EXECUTABLE=" + limited}).exit_code != 0)
    GTEST_SKIP() << "no setpriv or prlimit, or another user may not run braid here";
  const auto with_threads = [&](const char* command, const std::string& program) {
    return braid({command, program, "--random", "1", "--threads", "4"}, {}, {"BRAID_EXECUTABLE=" + limited});
  };
  const ProcessResult alone = with_threads("run", loop);
  EXPECT_EQ(alone.exit_code, 0) << alone.out << alone.err;
  const ProcessResult ended = with_threads("verify", window);
  EXPECT_EQ(ended.exit_code, 4) << ended.out << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("error BR0007: a library has ended the process"));
}

TEST(Hostile, SizesWhoseCostsOverflowAreRefusedBySplitting) {
  const Folder folder;
  onnx::ModelProto proto;
  ASSERT_TRUE(
      onnx::OnnxParser::Parse(proto,
                              "<ir_version: 8, opset_import: [\"\" : 17]> g (float[9007199254740992, 19] x) "
                              "=> (float[n, 19] y) { y = Sin(x) }")
          .IsOK());
  const ProcessResult result = braid({"compile", folder.file("long.onnx", proto.SerializeAsString()), "--tp",
                                      "4", "--emit", "source", "-o", folder / "out"});
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_THAT(result.err, HasSubstr("BR0480"));
}

// Runs as an ordinary user; root may read and write everything.
TEST(Hostile, FoldersAndFilesWithoutPermissionAreNamed) {
  if (geteuid() == 0 && system("setpriv --reuid 65534 --clear-groups true > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "no setpriv";
  const Folder folder;
  const std::string text = folder.file("twice.braid", kHostileTwice);
  ASSERT_EQ(braid({"compile", text, "-o", folder / "program"}).exit_code, 0);
  ASSERT_EQ(mkdir((folder / "closed").c_str(), 0555), 0);
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod((folder / "program/manifest.json").c_str(), 0), 0);
  const auto as_user = [&](const Arguments& arguments) {
    std::string command = geteuid() == 0 ? "setpriv --reuid 65534 --regid 65534 --clear-groups " : "";
    command += "env HOME=/nonexistent BRAID_CACHE_DIR=/nonexistent " + paths::executable();
    for (const std::string& argument : arguments) command += " '" + argument + "'";
    const int status = system((command + " > " + (folder / "said") + " 2>&1").c_str());
    return ProcessResult{WEXITSTATUS(status), {}, read_text(folder / "said")};
  };
  if (as_user({"--version"}).exit_code != 0) GTEST_SKIP() << "another user may not run braid here";
  const ProcessResult compiled_there = as_user({"compile", text, "-o", folder / "closed/out"});
  EXPECT_EQ(compiled_there.exit_code, 5) << compiled_there.err;
  EXPECT_THAT(compiled_there.err, AllOf(HasSubstr("BR0010"), HasSubstr("Permission denied")));
  const ProcessResult closed = as_user({"run", folder / "program"});
  EXPECT_EQ(closed.exit_code, 3) << closed.err;
  EXPECT_THAT(closed.err, AllOf(HasSubstr("BR0008"), HasSubstr("it cannot be read: Permission denied")));
}

}  // namespace
}  // namespace braid::test
