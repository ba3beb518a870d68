// SIGINT and SIGTERM leave nothing behind: no ranks, no compiler, no temporary folders, no half-written
// files.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <thread>

#include "tests/cli/braid_process.h"
#include "tests/cli/paths.h"

namespace braid::test {
namespace {

using ::testing::IsEmpty;

void pause_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// The test's own time-out ends these loops.
void wait_for_file(const std::string& path) {
  while (!fs::exists(path)) pause_ms(5);
}
void wait_for_end(int process) {
  while (runs(process)) pause_ms(5);
}

class Interrupt : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Signal, Interrupt, ::testing::Values(SIGINT, SIGTERM, SIGHUP), [](const auto& info) {
  return std::string(info.param == SIGINT ? "INT" : info.param == SIGTERM ? "TERM" : "HUP");
});

std::string two_ranks() {
  return compiled("all_reduce", {model("collectives/all_reduce_dynamic/model.onnx"), "--ranks", "2", "--dim",
                                 "batch=1..4", "--dim", "sequence=1..16"});
}

// A host compiler that has begun to write everywhere where compilers write, and has started others, and does
// not end by itself.
std::string slow_compiler(const Folder& folder) {
  const std::string path = folder.file("compiler",
                                       "#!/bin/sh\n"
                                       "trap '' INT TERM HUP\n"
                                       "while [ $# -gt 0 ]; do [ \"$1\" = -o ] && output=$2; shift; done\n"
                                       "echo half > \"$output\"\n"
                                       "mkdir -p \"$TMPDIR/inner\"\n"
                                       "echo half > \"$TMPDIR/inner/cc.s\"\n"
                                       "sleep 1000 &\n"
                                       "echo $! $$ > " +
                                           (folder / "pids.new") + "\nmv " + (folder / "pids.new") + " " +
                                           (folder / "pids") + "\nwait\nwait\nsleep 1000\n");
  fs::permissions(path, fs::perms::owner_all);
  return path;
}

TEST_P(Interrupt, EndsTheHostCompilerAndAllThatItHasStartedAndWritten) {
  for (const bool into_a_folder : {true, false}) {
    const Folder folder, temporary, out;
    const std::string text = folder.file(
        "one.braid",
        "graph one input %x: f32[2] %y: f32[2] = pointwise { %0 = load %x %1 = neg %0 store %1 } output %y");
    const Arguments environment = {"CXX=" + slow_compiler(folder), "TMPDIR=" + temporary.path().string()};
    const Arguments arguments = into_a_folder
                                    ? Arguments{"compile", text, "-o", out.path().string()}
                                    : Arguments{"run", text, "--random", "1", "-o", out / "results"};
    const ProcessResult result = braid(arguments, {}, environment, [&](int process) {
      wait_for_file(folder / "pids");
      ::kill(process, GetParam());
    });
    EXPECT_EQ(result.exit_code, 128 + GetParam()) << result.err;
    std::ifstream pids(folder / "pids");
    for (const int process : std::vector<int>(std::istream_iterator<int>(pids), {})) wait_for_end(process);
    EXPECT_THAT(temporary.names(), IsEmpty());
    for (const std::string& name : out.names())
      EXPECT_FALSE(name.ends_with(".so") || name.starts_with(".")) << name << " is left";
  }
}

// Ended before the k-th call that changes a file, for every k: before the first write the file is there, and
// empty.
TEST_P(Interrupt, LeavesNoHalfOfAFileThatIsWritten) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers want to be loaded first";
#endif
  const Folder folder;
  std::string text = "graph long\ninput %x0: f32[8]\n";
  constexpr int kNodes = 2000;
  for (int k = 1; k <= kNodes; ++k) {
    text += fmt::format("%x{}: f32[8]{} = pointwise {{ %0 = load %x{} %1 = neg %0 store %1 }}\n", k,
                        k == kNodes ? " output" : "", k - 1);
  }
  const std::string input = folder.file("long.braid", text + fmt::format("output %x{}\n", kNodes));
  const std::string output = folder / "out.braid";
  const Arguments command = {"opt", input, "--passes=dead_code", "-o", output};
  ASSERT_EQ(braid(command).exit_code, 0);
  const std::string whole = read_text(output);
  int ended = 0;
  for (int k = 1;; ++k) {
    SCOPED_TRACE("ended at call " + std::to_string(k));
    fs::remove(output);
    const ProcessResult result =
        braid(command, {},
              {"LD_PRELOAD=" + paths::kill_at_call(), "BRAID_TEST_KILL_AT=" + std::to_string(k),
               "BRAID_TEST_KILL_SIGNAL=" + std::to_string(GetParam())});
    if (result.exit_code == 0) break;
    ASSERT_EQ(result.exit_code, 128 + GetParam()) << result.err;
    ++ended;
    if (fs::exists(output)) EXPECT_EQ(read_text(output), whole);
  }
  EXPECT_GT(ended, 0);
}

TEST_P(Interrupt, EndsTheRanksEvenIfOneIsStopped) {
  const Folder temporary;
  const std::string program = two_ranks();
  std::vector<int> ranks;
  const ProcessResult result =
      braid({"run", program, "--random", "1", "--repeat", "1000000"}, {},
            {"TMPDIR=" + temporary.path().string()}, [&](int process) {
              while (children_of(process).size() < 2) pause_ms(5);
              pause_ms(300);  // they have begun: only then do they end with their parent, stopped or not
              ranks = children_of(process);
              ::kill(ranks[1], SIGSTOP);
              ::kill(process, GetParam());
            });
  EXPECT_EQ(result.exit_code, 128 + GetParam()) << result.err;
  for (const int rank : ranks) wait_for_end(rank);
  EXPECT_THAT(temporary.names(), IsEmpty());
}

TEST(InterruptIgnored, ASignalThatWasIgnoredStaysSo) {
  const std::string program = two_ranks();
  const auto before = std::signal(SIGHUP, SIG_IGN);  // as nohup does
  const ProcessResult result = braid({"run", program, "--random", "1", "--repeat", "300"}, {}, {},
                                     [](int process) { ::kill(process, SIGHUP); });
  std::signal(SIGHUP, before);
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

}  // namespace
}  // namespace braid::test
