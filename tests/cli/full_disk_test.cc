// A full disk or a closed pipe is an error of every command that writes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "tests/cli/braid_process.h"
#include "tests/cli/paths.h"

namespace braid::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kDiskText =
    "graph twice\ninput %x: f32[2000]\n%y: f32[2000] = pointwise { %0 = load %x %1 = add %0, %0 store %1 "
    "}\noutput %y\n";

struct WritingCommand {
  std::vector<std::string> arguments;
  std::string input;
};

std::vector<std::string> schedule(const std::string& command, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"pipeline", command, "--schedule",     "1F1B",
                                        "--ranks",  "2",     "--microbatches", "3"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// Every command, and what it prints beside its main business.
std::vector<WritingCommand> writing_commands(const Folder& folder) {
  const std::string text = folder.file("twice.braid", kDiskText), program = compiled("twice_2000", {text});
  return {{{"compile", text, "--emit", "source", "-o", folder / "a"}, {}},
          {{"compile", text, "--emit", "ir", "-o", folder / "b"}, {}},
          {{"run", program, "--random", "1"}, {}},
          {{"bench", program, "--repeat", "1"}, {}},
          {{"bench", program, "--serve"}, "run\n"},
          {{"verify", text, "--random", "1"}, {}},
          {{"test", folder / "no_case"}, {}},
          {{"check", text}, {}},
          {{"explain", text}, {}},
          {{"opt", text}, {}},
          {{"opt", text, "--passes", "dead_code", "--print-after", "all", "-o", folder / "c.braid"}, {}},
          {{"opt", "--list-passes"}, {}},
          {{"opt", "--list-machines"}, {}},
          {{"ops"}, {}},
          {{"ops", "--json"}, {}},
          {{"--version"}, {}},
          {{"--help"}, {}},
          {{"compile", "--help"}, {}},
          {schedule("generate"), {}},
          {{"pipeline", "generate", "--list"}, {}},
          {schedule("lower"), {}},
          {schedule("check"), {}},
          {schedule("simulate"), {}},
          {schedule("show"), {}}};
}

std::string shown(const WritingCommand& command) {
  std::string text;
  for (const std::string& a : command.arguments) text += a + " ";
  return text;
}

void expect_error_into(int out, const WritingCommand& command, const std::string& where) {
  SCOPED_TRACE("braid " + shown(command) + where);
  const ProcessResult result = braid_into(out, command.arguments, command.input);
  EXPECT_EQ(result.exit_code, 5) << result.err;
  EXPECT_THAT(result.err, HasSubstr("BR0010: standard output cannot be written"));
}

TEST(FullDisk, StandardOutputThatTakesNothingIsAnErrorOfEveryCommand) {
  const Folder folder;
  for (const WritingCommand& command : writing_commands(folder)) {
    EXPECT_THAT(braid(command.arguments, command.input).out, Not(IsEmpty())) << shown(command);
    const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
    ASSERT_GE(full, 0);
    expect_error_into(full, command, "> /dev/full");
    ::close(full);
    int pipe[2];
    ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
    ::close(pipe[0]);
    expect_error_into(pipe[1], command, "| true");
    ::close(pipe[1]);
    expect_error_into(-1, command, ">&-");
  }
}

TEST(FullDisk, AClosedOutputIsNotTakenForAFile) {
  const Folder folder;
  const std::string text = folder.file("twice.braid", kDiskText);
  braid_into(-1, {"opt", text, "-o", folder / "out.braid"});
  EXPECT_EQ(read_text(folder / "out.braid"), braid({"opt", text}).out);
}

// Returns the setting for a braid in which no file may grow beyond this many blocks of 1024 bytes. Its
// standard error goes through a pipe, which has no limit.
std::string limited_files(const Folder& folder, const std::string& blocks) {
  const std::string path =
      folder.file("limited", "#!/bin/bash\nset -o pipefail\n{ ulimit -f " + blocks + "; exec " +
                                 paths::executable() + " \"$@\"; } 2>&1 >/dev/null | cat >&2\n");
  EXPECT_EQ(::chmod(path.c_str(), 0700), 0);
  return "BRAID_EXECUTABLE=" + path;
}

TEST(FullDisk, ResultsAppearTogetherOrNotAtAll) {
  const Folder folder;
  const std::string text =
      folder.file("two.braid",
                  "graph two\ninput %x: f32[2000]\n%y: f32[1] = pointwise { %0 = load %x[0] store %0 }\n"
                  "%z: f32[2000] = pointwise { %0 = load %x store %0 }\noutput %y\noutput %z\n");
  const std::string program = compiled("two_outputs", {text});
  const std::vector<std::string> run = {"run", program, "--random", "1", "-o", folder / "new/er/out"};
  const ProcessResult failed = braid(run, {}, {limited_files(folder, "4")});
  EXPECT_EQ(failed.exit_code, 5) << failed.err;
  EXPECT_THAT(failed.err, HasSubstr("BR0010"));
  EXPECT_FALSE(fs::exists(folder / "new")) << "folders that were made for nothing";
  // Existing results stay.
  EXPECT_EQ(braid(run).exit_code, 0);
  const std::string before = read_text(folder / "new/er/out/y.npy");
  const std::vector<std::string> names = folder.names();
  EXPECT_EQ(
      braid({"run", program, "--random", "2", "-o", folder / "new/er/out"}, {}, {limited_files(folder, "4")})
          .exit_code,
      5);
  EXPECT_EQ(read_text(folder / "new/er/out/y.npy"), before);
  EXPECT_EQ(folder.names(), names);
}

TEST(FullDisk, NoCommandLeavesHalfOfWhatItWrites) {
  const Folder folder;
  const std::string text = folder.file("twice.braid", kDiskText), program = compiled("twice_2000", {text});
  const std::string out = folder / "out";
  const std::string limited = limited_files(folder, "0");
  const std::vector<std::string> sizes = {"--schedule", "1F1B", "--ranks", "2", "--microbatches", "3"};
  std::vector<std::vector<std::string>> all = {
      {"compile", text, "--emit", "ir", "-o", out},
      {"compile", text, "--emit", "schedule", "-o", out},
      {"compile", text, "--emit", "source", "-o", out + "/below"},
      {"run", program, "--random", "1", "-o", out},
      {"run", program, "--random", "1", "-o", out + ".npz"},
      {"run", program, "--random", "1", "--trace", out},
      {"run", program, "--random", "1", "--trace-costs", out},
      {"run", program, "--random", "1", "--json=" + out},
      {"bench", program, "--repeat", "1", "--json=" + out},
      {"test", folder / "no_case", "--report", out},
      {"test", folder / "no_case", "--json=" + out},
      {"check", text, "--json=" + out},
      {"inspect", program, "--json=" + out},
      {"explain", text, "--json=" + out},
      {"explain", text, "--html", out},
      {"explain", text, "--trace", out},
      {"opt", text, "-o", out},
      {"opt", text, "--json=" + out},
      {"ops", "--json=" + out},
      {"man", "-o", out},
  };
  for (const char* command : {"generate", "lower"}) {
    all.push_back({"pipeline", command, "-o", out});
    all.back().insert(all.back().end(), sizes.begin(), sizes.end());
  }
  for (const char* option : {"--trace", "--svg"}) {
    all.push_back({"pipeline", "simulate", option, out});
    all.back().insert(all.back().end(), sizes.begin(), sizes.end());
  }
  all.push_back({"pipeline", "search", "--ranks", "2", "--microbatches", "2", "-o", out});
  const std::vector<std::string> before = folder.names();
  for (const std::vector<std::string>& arguments : all) {
    SCOPED_TRACE(shown({arguments, {}}));
    const ProcessResult result = braid(arguments, {}, {limited});
    EXPECT_EQ(result.exit_code, 5) << result.out << result.err;
    EXPECT_THAT(result.err, HasSubstr("BR0010"));
    EXPECT_EQ(folder.names(), before);
  }
}

TEST(FullDisk, AFileThatIsReplacedKeepsWhatItIsKnownBy) {
  const Folder folder;
  const std::string text = folder.file("twice.braid", kDiskText), file = folder.file("file", "old");
  ::chmod(file.c_str(), 0600);
  fs::create_symlink(file, folder / "link");
  EXPECT_EQ(braid({"opt", text, "-o", folder / "link"}).exit_code, 0);
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(read_text(file), braid({"opt", text}).out);
  EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(braid({"opt", text, "-o", "/dev/stdout"}).out, read_text(file));
  EXPECT_THAT(braid({"opt", text, "-o", folder / ""}).err, HasSubstr("BR0010"));
}

// In a file system of one page, which is full already.
TEST(FullDisk, FilesThatCannotBeWrittenAreErrorsAndDoNotStay) {
  constexpr int kNotPermitted = 77;
  const Folder folder;
  const std::string text = folder.file("twice.braid", kDiskText), program = compiled("twice_2000", {text});
  const std::string full = folder / "full";
  ::mkdir(full.c_str(), 0700);
  const std::vector<std::vector<std::string>> all = {
      {"compile", text, "--emit", "source", "-o", full + "/program"},
      {"compile", text, "--emit", "schedule", "-o", full},
      {"run", program, "--random", "1", "-o", full},
      {"run", program, "--random", "1", "--trace", full + "/trace.json"},
      {"run", program, "--random", "1", "--trace-costs", full + "/costs.json"},
      {"explain", text, "--json=" + full + "/story.json"},
      {"explain", text, "--html", full + "/story.html"},
      {"explain", text, "--trace", full + "/story.trace"},
      {"opt", text, "-o", full + "/out.braid"},
      schedule("generate", {"-o", full + "/out.csv"}),
      schedule("lower", {"-o", full + "/out.csv"}),
  };
  const std::string user = "0 " + std::to_string(::getuid()) + " 1",
                    group = "0 " + std::to_string(::getgid()) + " 1";
  const pid_t child = ::fork();
  if (child == 0) {
    const bool apart = ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << user;
    std::ofstream("/proc/self/gid_map") << group;
    if (!apart || ::mount("tmpfs", full.c_str(), "tmpfs", 0, "size=4k") != 0) ::_exit(kNotPermitted);
    std::ofstream(full + "/ballast") << std::string(4096, 'x');
    int bad = 0;
    for (const std::vector<std::string>& arguments : all) {
      const ProcessResult result = braid(arguments);
      std::vector<std::string> left;
      for (const auto& entry : fs::recursive_directory_iterator(full))
        left.push_back(entry.path().filename().string());
      if (result.exit_code == 5 && result.err.find("BR0010") != std::string::npos && left.size() == 1)
        continue;
      ++bad;
      std::fprintf(stderr, "braid %s: exit code %d, %zu files: %s\n", shown({arguments, {}}).c_str(),
                   result.exit_code, left.size(), result.err.c_str());
    }
    ::_exit(bad);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNotPermitted) GTEST_SKIP() << "no namespaces for ordinary users here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace braid::test
