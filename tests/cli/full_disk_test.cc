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

namespace braid::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kText =
    "graph twice\ninput %x: f32[2000]\n%y: f32[2000] = pointwise { %0 = load %x %1 = add %0, %0 store %1 "
    "}\noutput %y\n";

struct Command {
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
std::vector<Command> commands(const Folder& folder) {
  const std::string text = folder.file("twice.braid", kText), program = compiled("twice_2000", {text});
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

std::string shown(const Command& command) {
  std::string text;
  for (const std::string& a : command.arguments) text += a + " ";
  return text;
}

void expect_error_into(int out, const Command& command, const std::string& where) {
  SCOPED_TRACE("braid " + shown(command) + where);
  const ProcessResult result = braid_into(out, command.arguments, command.input);
  EXPECT_EQ(result.exit_code, 5) << result.err;
  EXPECT_THAT(result.err, HasSubstr("BR0010: standard output cannot be written"));
}

TEST(FullDisk, StandardOutputThatTakesNothingIsAnErrorOfEveryCommand) {
  const Folder folder;
  for (const Command& command : commands(folder)) {
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
  const std::string text = folder.file("twice.braid", kText);
  braid_into(-1, {"opt", text, "-o", folder / "out.braid"});
  EXPECT_EQ(read_text(folder / "out.braid"), braid({"opt", text}).out);
}

TEST(FullDisk, ALimitOfTheSizeOfFilesIsAnErrorLikeAFullDisk) {
  const Folder folder;
  const std::string text = folder.file("twice.braid", kText), program = compiled("twice_2000", {text});
  const std::string limited =
      folder.file("limited", "#!/bin/sh\nulimit -f 1\nexec " BRAID_EXECUTABLE_PATH " \"$@\"\n");
  ASSERT_EQ(::chmod(limited.c_str(), 0700), 0);
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"run", program, "--random", "1", "-o", folder / "out"},
        {"compile", text, "--emit", "source", "-o", folder / "source"}}) {
    const ProcessResult result = braid(arguments, {}, {"BRAID_EXECUTABLE=" + limited});
    EXPECT_EQ(result.exit_code, 5) << result.err;
    EXPECT_THAT(result.err, HasSubstr("BR0010"));
  }
  for (const std::string& name : folder.names()) EXPECT_THAT(name, Not(HasSubstr("out/y"))) << "half a file";
}

// In a file system of one page, which is full already.
TEST(FullDisk, FilesThatCannotBeWrittenAreErrorsAndDoNotStay) {
  constexpr int kNotPermitted = 77;
  const Folder folder;
  const std::string text = folder.file("twice.braid", kText), program = compiled("twice_2000", {text});
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
