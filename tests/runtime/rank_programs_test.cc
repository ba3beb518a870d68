// Ranks that are programs: started with only the resources that they need, supervised step by step, and never
// left behind.
#include "runtime/comm/rank_programs.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "runtime/comm/process_identity.h"

namespace braid::rt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int64_t kTimeoutMs = 300;

bool runs(pid_t process) {
  return maybe_alive({.pid = process, .pid_namespace = current_process().pid_namespace});
}

// The shell as a rank.
RankProgram shell(const std::string& script, std::vector<int> descriptors = {}) {
  return {{"/bin/sh", "-c", script}, {"PATH=/usr/bin:/bin", "RANK=7"}, std::move(descriptors)};
}

std::unique_ptr<RankPrograms> started(const std::vector<RankProgram>& programs) {
  std::unique_ptr<RankPrograms> ranks;
  const Status status = RankPrograms::start(programs, kTimeoutMs, &ranks);
  EXPECT_TRUE(status.ok()) << status.message;
  return ranks;
}

void wait_until_ended(RankPrograms& ranks, int rank) {
  while (!ranks.has_ended(rank)) {
    pollfd news{.fd = ranks.news(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&news, 1, 60'000), 1) << "rank " << rank << " does not end";
    (void)ranks.endings();
  }
}

std::string read_all(int descriptor) {
  std::string text;
  char buffer[256];
  for (ssize_t n; (n = ::read(descriptor, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  return text;
}

TEST(RankPrograms, FindWhatTheyAreGivenAndNothingElse) {
  int first[2], second[2];
  ASSERT_EQ(::pipe(first), 0);  // not closed on exec: it is not passed on either
  ASSERT_EQ(::pipe2(second, O_CLOEXEC), 0);
  // `ls` has one more, for the folder.
  auto ranks = started(
      {shell("echo \"$RANK $(ls /proc/self/fd | tr '\\n' ' ')$(cat <&0)\" >&4; exec 4>&-; exec sleep 100",
             {first[0], second[1]})});
  ::close(second[1]);
  EXPECT_EQ(read_all(second[0]), "7 0 1 2 3 4 5 \n");
  EXPECT_THAT(ranks->endings(), IsEmpty());
  ranks->end(0);
  for (const int descriptor : {first[0], first[1], second[0]}) ::close(descriptor);
}

TEST(RankPrograms, EndsAreNamedCausesFirst) {
  auto ranks = started({shell("exit 3"), shell("kill -KILL $$"), shell("exit 0"), shell("exec sleep 100")});
  for (int rank = 0; rank < 3; ++rank) wait_until_ended(*ranks, rank);
  const std::string text = ranks->endings();
  EXPECT_THAT(
      text, AllOf(HasSubstr("rank 1 (process "), HasSubstr("was killed by signal 9 (Killed)"),
                  HasSubstr("exited with code 3"), HasSubstr("exited without returning from its function")));
  EXPECT_LT(text.find("rank 1"), text.find("rank 0"));
  wait_until_ended(*ranks, 3);  // one time-out after the step has failed
  EXPECT_THAT(ranks->endings(), HasSubstr("rank 3 (process "));
  EXPECT_THAT(ranks->endings(), HasSubstr("still ran 300 ms after the run had failed"));
}

TEST(RankPrograms, AStepDoesNotWaitForStoppedRanks) {
  auto ranks = started({shell("exec sleep 100"), shell("kill -STOP $$")});
  wait_until_ended(*ranks, 1);
  EXPECT_THAT(ranks->endings(), HasSubstr("rank 1 (process "));
  EXPECT_THAT(ranks->endings(), HasSubstr("was stopped by signal 19"));
}

TEST(RankPrograms, RanksThatHaveAnsweredMayBeSilentOrStopped) {
  auto ranks = started({shell("exec sleep 100"), shell("exec sleep 100")});
  const std::vector<pid_t> processes = ranks->processes();
  for (const int rank : {0, 1}) ranks->answered(rank);
  ::kill(processes[1], SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(4 * kTimeoutMs));
  for (const int rank : {0, 1}) EXPECT_FALSE(ranks->has_ended(rank));
  ranks->begin_step();
  ranks->answered(0);
  wait_until_ended(*ranks, 1);
  EXPECT_THAT(ranks->endings(),
              AllOf(HasSubstr("rank 1"), HasSubstr("was stopped"), Not(HasSubstr("rank 0"))));
}

TEST(RankPrograms, AFailedStepEndsStoppedRanksAtOnce) {
  std::unique_ptr<RankPrograms> ranks;
  ASSERT_TRUE(
      RankPrograms::start({shell("exec sleep 100"), shell("exec sleep 100")}, 3'600'000, &ranks).ok());
  ::kill(ranks->processes()[0], SIGSTOP);
  ranks->answered(1);
  ranks->fail_step();
  wait_until_ended(*ranks, 0);
  EXPECT_THAT(ranks->endings(), HasSubstr("was stopped by signal 19"));
  EXPECT_FALSE(ranks->has_ended(1));
}

TEST(RankPrograms, EndLeavesNobody) {
  for (const char* script : {"exec sleep 100", "kill -STOP $$; exit",
                             "trap '' TERM INT HUP; while :; do sleep 1; done", "exit 0"}) {
    auto ranks = started({shell(script), shell(script)});
    const std::vector<pid_t> processes = ranks->processes();
    ranks->end(200);
    for (const pid_t process : processes) EXPECT_FALSE(runs(process)) << script;
    auto destroyed = started({shell(script)});
    const pid_t process = destroyed->processes()[0];
    destroyed.reset();
    EXPECT_FALSE(runs(process)) << script;
  }
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
}

TEST(RankPrograms, OutliveTheThreadThatHasStartedThem) {
  std::unique_ptr<RankPrograms> ranks;
  std::thread([&] { ranks = started({shell("exec sleep 100")}); }).join();
  ranks->answered(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_FALSE(ranks->has_ended(0));
  EXPECT_TRUE(runs(ranks->processes()[0]));
}

TEST(RankPrograms, EndWithTheirLauncherHoweverItEnds) {
  for (const int signal : {SIGKILL, SIGTERM, SIGSEGV, 0}) {
    int channel[2];
    ASSERT_EQ(::pipe2(channel, O_CLOEXEC), 0);
    const pid_t launcher = ::fork();
    if (launcher == 0) {
      std::unique_ptr<RankPrograms> ranks;
      const Status status =
          RankPrograms::start({shell("kill -STOP $$"), shell("exec sleep 100")}, 3'600'000, &ranks);
      const std::vector<pid_t> processes = status.ok() ? ranks->processes() : std::vector<pid_t>{};
      (void)!::write(channel[1], processes.data(), processes.size() * sizeof(pid_t));
      if (signal == 0) ::_exit(0);
      for (;;) ::pause();
    }
    ::close(channel[1]);
    pid_t processes[2] = {};
    ASSERT_EQ(::read(channel[0], processes, sizeof processes), static_cast<ssize_t>(sizeof processes));
    if (signal != 0) ::kill(launcher, signal);
    ::waitpid(launcher, nullptr, 0);
    for (const pid_t process : processes) {
      for (int look = 0; runs(process) && look < 1000; ++look)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      EXPECT_FALSE(runs(process)) << "after signal " << signal;
    }
    ::close(channel[0]);
  }
}

TEST(RankPrograms, AProgramThatDoesNotStartIsAnErrorAndLeavesNobody) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer makes a fork of vfork: the child cannot tell its error";
#endif
  std::unique_ptr<RankPrograms> ranks;
  const RankProgram absent{{"/nowhere/at/all"}, {}, {}};
  const Status status = RankPrograms::start({shell("exec sleep 100"), absent}, kTimeoutMs, &ranks);
  EXPECT_EQ(status.code, StatusCode::system);
  EXPECT_THAT(status.message,
              AllOf(HasSubstr("cannot start rank 1 (/nowhere/at/all)"), HasSubstr("No such file")));
  EXPECT_EQ(ranks, nullptr);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
}

}  // namespace
}  // namespace braid::rt::testing
