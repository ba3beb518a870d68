// launch_processes ends in time and names the right rank, whatever its children do.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <thread>

#include "runtime/comm/process_identity.h"
#include "tests/runtime/comm_cases.h"

namespace braid::rt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

LaunchOptions launch_options(int64_t timeout_ms) {
  return {.world = {.segment_bytes = 4096, .timeout_ms = timeout_ms}, .pacing = {}};
}

// Process ids that children leave for the test.
class SharedIds {
 public:
  SharedIds() {
    ids_ = static_cast<std::atomic<int>*>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  }
  ~SharedIds() { munmap(ids_, 4096); }
  SharedIds(const SharedIds&) = delete;
  SharedIds& operator=(const SharedIds&) = delete;
  std::atomic<int>& operator[](int k) const { return ids_[k]; }

 private:
  std::atomic<int>* ids_;
};

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

bool runs(int process) {
  return maybe_alive({.pid = process, .pid_namespace = current_process().pid_namespace});
}

// Rank 1 of three does something else instead of a barrier, which the others report.
Status with_odd_rank(int64_t timeout_ms, const std::function<void()>& odd) {
  return launch_processes(3, launch_options(timeout_ms), [&](World& world) {
    Communicator* all = make_group(world, first_ranks(3), "tp");
    EXPECT_TRUE(all->run({.kind = CollectiveKind::barrier, .label = "before"}).ok());
    if (world.rank() == 1) {
      odd();
      return 0;
    }
    const Status missed = all->run({.kind = CollectiveKind::barrier, .label = "after"});
    EXPECT_THAT(missed.message, HasSubstr("rank 1"));
    if (::testing::Test::HasFailure()) abort();
    return 1;
  });
}

struct OddRank {
  const char* name;
  void (*does)();
  const char* verdict;
};
class Launch : public ::testing::TestWithParam<OddRank> {};

[[noreturn]] void run_for_ever() {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) ::signal(signal, SIG_IGN);
  for (std::atomic<int> spins = 0;; ++spins) sleep_ms(1);
}

INSTANTIATE_TEST_SUITE_P(
    Faults, Launch,
    ::testing::Values(OddRank{"is_stopped", [] { raise(SIGSTOP); }, "was stopped by signal 19"},
                      OddRank{"is_killed", [] { raise(SIGKILL); }, "was killed by signal 9"},
                      OddRank{"runs_on_and_ignores_signals", [] { run_for_ever(); }, "still ran"},
                      OddRank{"becomes_another_program",
                              [] {
                                execl("/bin/sleep", "sleep", "100", nullptr);
                                _exit(9);
                              },
                              "still ran"},
                      OddRank{"becomes_a_program_that_ends_well",
                              [] {
                                execl("/bin/true", "true", nullptr);
                                _exit(9);
                              },
                              "exited without returning from its function"},
                      OddRank{"forks_and_ends",
                              [] {
                                if (fork() == 0) {
                                  sleep_ms(3000);
                                  _exit(0);
                                }
                                _exit(0);
                              },
                              "exited without returning from its function"},
                      OddRank{"closes_all_files_and_stops",
                              [] {
                                for (int fd = 0; fd < 1024; ++fd) close(fd);
                                raise(SIGSTOP);
                              },
                              "was stopped by signal 19"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(Launch, ends_and_names_the_rank_first) {
  const Status status = with_odd_rank(3000, GetParam().does);
  EXPECT_EQ(status.code, StatusCode::peer_died);
  EXPECT_THAT(status.message, StartsWith("rank 1 (process "));
  EXPECT_THAT(status.message, AllOf(HasSubstr(GetParam().verdict), HasSubstr("; rank 0 (process "),
                                    HasSubstr("; rank 2 (process "), Not(HasSubstr("signal 6"))));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
}

TEST(LaunchFaults, a_rank_that_is_stopped_when_nobody_waits_for_it_is_given_up) {
  const Status status = launch_processes(2, launch_options(300), [](World& world) {
    if (world.rank() == 1) raise(SIGSTOP);
    return 0;
  });
  EXPECT_THAT(status.message,
              AllOf(HasSubstr("rank 1"), HasSubstr("was stopped by signal 19"), Not(HasSubstr("rank 0"))));
}

TEST(LaunchFaults, all_ranks_may_be_stopped) {
  const Status status = launch_processes(2, launch_options(300), [](World&) { return raise(SIGSTOP); });
  EXPECT_THAT(status.message, AllOf(HasSubstr("rank 0"), HasSubstr("rank 1")));
}

TEST(LaunchFaults, a_survivor_that_returns_well_does_not_hide_the_rank_that_runs_on) {
  const Status status = launch_processes(2, launch_options(300), [](World& world) {
    Communicator* all = make_group(world, {0, 1}, "tp");
    if (world.rank() == 1) run_for_ever();
    EXPECT_EQ(all->run({.kind = CollectiveKind::barrier, .label = "b"}).code, StatusCode::timed_out);
    return 0;
  });
  EXPECT_THAT(status.message,
              AllOf(HasSubstr("rank 1"), HasSubstr("still ran 300 ms"), Not(HasSubstr("rank 0"))));
}

TEST(LaunchFaults, a_rank_that_goes_on_after_it_was_stopped_is_no_error) {
  const SharedIds ids;
  run_ranks(Ranks::processes, 2, launch_options(20'000), [&](World& world) {
    Communicator* all = make_group(world, {0, 1}, "tp");
    if (world.rank() == 1) {
      ids[0] = getpid();
      raise(SIGSTOP);
    } else {
      while (ids[0] == 0) sleep_ms(1);
      sleep_ms(150);
      kill(ids[0], SIGCONT);
    }
    EXPECT_TRUE(all->run({.kind = CollectiveKind::barrier, .label = "b"}).ok());
  });
}

TEST(LaunchFaults, ranks_end_with_their_launcher_even_if_they_are_stopped) {
  const SharedIds ids;
  const pid_t launcher = fork();
  if (launcher == 0) {
    (void)launch_processes(2, launch_options(20'000), [&](World& world) {
      ids[world.rank()] = getpid();
      if (world.rank() == 1) raise(SIGSTOP);
      run_for_ever();
      return 0;
    });
    _exit(0);
  }
  while (ids[0] == 0 || ids[1] == 0) sleep_ms(1);
  kill(launcher, SIGKILL);
  int state = 0;
  ASSERT_EQ(waitpid(launcher, &state, 0), launcher);
  for (const int rank : {0, 1}) {
    while (runs(ids[rank])) sleep_ms(1);  // the test's own time-out ends this
  }
}

TEST(LaunchFaults, ignored_children_are_waited_for_all_the_same) {
  const auto before = signal(SIGCHLD, SIG_IGN);
  const Status good = launch_processes(2, launch_options(20'000), [](World&) { return 0; });
  const Status bad = launch_processes(2, launch_options(20'000), [](World& world) { return world.rank(); });
  EXPECT_EQ(signal(SIGCHLD, before), SIG_IGN) << "the launcher has put back what it found";
  EXPECT_TRUE(good.ok()) << good.message;
  EXPECT_THAT(bad.message, AllOf(HasSubstr("rank 1"), HasSubstr("exited with code 1")));
}

// The limit does not hold for root, and counts all processes of a user: the child becomes a user without
// other processes.
TEST(LaunchFaults, a_thread_that_cannot_be_started_is_a_rank_that_has_failed) {
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t kNobodyElse = 65'432;
    const rlimit two{2, 2};
    if (setrlimit(RLIMIT_NPROC, &two) != 0 || (geteuid() == 0 && setuid(kNobodyElse) != 0)) _exit(77);
    const Status status = launch_threads(4, launch_options(20'000), [](World& world) {
      Communicator* all = make_group(world, first_ranks(4), "tp");
      return all->run({.kind = CollectiveKind::barrier, .label = "b"}).ok() ? 0 : 1;
    });
    const bool named = status.message.find("cannot be started") != std::string::npos;
    if (!named) std::fprintf(stderr, "%s\n", status.message.c_str());
    _exit(named ? 0 : 1);
  }
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  ASSERT_TRUE(WIFEXITED(state)) << "ended by signal " << WTERMSIG(state);
  if (WEXITSTATUS(state) == 77) GTEST_SKIP() << "no other user here";
  EXPECT_EQ(WEXITSTATUS(state), 0);
}

TEST(LaunchFaults, a_rank_may_compute_for_longer_than_the_time_out_while_nobody_waits) {
  const Status status = launch_processes(2, launch_options(100), [](World& world) {
    if (world.rank() == 1) sleep_ms(600);
    return 0;
  });
  EXPECT_TRUE(status.ok()) << status.message;
}

}  // namespace
}  // namespace braid::rt::testing
