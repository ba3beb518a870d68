// Teams of threads: every iteration once, whichever threads come; teams of other threads and nested loops
// beside them.
#include "runtime/team.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/support/random.h"

namespace braid::rt {
namespace {

constexpr int kThreads[] = {1, 2, 3, 7, 64};

// Workers come only if they have time to: chunks that sleep give it to them, on any machine.
void pause_us(int64_t microseconds) { usleep(static_cast<useconds_t>(microseconds)); }

TEST(Team, RunsEveryIterationOnceAndNoThreadTwiceAtOnce) {
  std::set<int> came;
  for (const int threads : kThreads) {
    Team team(threads);
    const TeamScope scope(&team);
    for (const int64_t count : {0, 1, 2, 5, 31, 32, 33, 1000, 4096, 100003}) {
      SCOPED_TRACE(::testing::Message() << threads << " threads, " << count << " iterations");
      std::vector<std::atomic<int>> runs(static_cast<size_t>(count)), busy(static_cast<size_t>(threads));
      std::atomic<int> wrong = 0;
      std::mutex mutex;
      parallel_for(count, true, [&](int64_t begin, int64_t end, int thread) {
        if (begin >= end || thread < 0 || thread >= threads) ++wrong;
        if (busy[static_cast<size_t>(thread)]++ != 0) ++wrong;
        pause_us(threads <= 7 ? 100 + 200 * (thread % 2) : 1);  // the caller does not end last
        for (int64_t k = begin; k < end; ++k) ++runs[static_cast<size_t>(k)];
        --busy[static_cast<size_t>(thread)];
        const std::lock_guard lock(mutex);
        came.insert(thread);
      });
      EXPECT_EQ(wrong, 0);
      EXPECT_TRUE(std::ranges::all_of(runs, [](const auto& n) { return n == 1; }));
    }
  }
  if (std::thread::hardware_concurrency() > 1) {
    EXPECT_GT(came.size(), 1u);
  }
}

// Parts are so short that threads often take them at the same time.
TEST(Team, NoPartIsTakenTwice) {
  Team team(8);
  const TeamScope scope(&team);
  const int rounds = test::random_cases(20000);
  for (int round = 0; round < rounds; ++round) {
    std::atomic<int> runs = 0;
    parallel_for(32, true, [&](int64_t begin, int64_t end) { runs += static_cast<int>(end - begin); });
    ASSERT_EQ(runs, 32) << "round " << round;
  }
}

TEST(Team, ChunksOfLongLoopsShrinkAndBeginAtWholeVectors) {
  Team team(2);
  const TeamScope scope(&team);
  std::mutex mutex;
  std::vector<std::pair<int64_t, int64_t>> chunks;
  parallel_for(1 << 20, true, [&](int64_t begin, int64_t end) {
    const std::lock_guard lock(mutex);
    chunks.emplace_back(begin, end);
  });
  std::ranges::sort(chunks);
  // One chunk where there is only one processor.
  if (chunks.size() > 1) {
    EXPECT_EQ(chunks.size(), 8u);
  }
  for (size_t k = 0; k < chunks.size(); ++k) {
    EXPECT_EQ(chunks[k].first % 64, 0);
    if (k > 0) {
      EXPECT_EQ(chunks[k].first, chunks[k - 1].second);
    }
    if (k > 0) {
      EXPECT_LE(chunks[k].second - chunks[k].first, chunks[k - 1].second - chunks[k - 1].first);
    }
  }
  EXPECT_EQ(chunks.back().second, 1 << 20);
}

TEST(Team, ChunksHaveTheGrainIfAllThreadsThenHaveOne) {
  for (const auto& [count, grain, least] :
       {std::tuple<int64_t, int64_t, int64_t>{64, 4, 4}, {6, 4, 3}, {5, 100, 2}}) {
    Team team(2);
    const TeamScope scope(&team);
    std::mutex mutex;
    std::vector<std::pair<int64_t, int64_t>> chunks;
    parallel_for(
        count, true,
        [&](int64_t begin, int64_t end) {
          const std::lock_guard lock(mutex);
          chunks.emplace_back(begin, end);
        },
        grain);
    std::ranges::sort(chunks);
    EXPECT_EQ(chunks.back().second, count);
    for (size_t k = 0; k + 1 < chunks.size(); ++k) {
      EXPECT_GE(chunks[k].second - chunks[k].first, least) << count << " iterations, chunk " << k;
      EXPECT_EQ(chunks[k].second, chunks[k + 1].first);
    }
  }
}

#ifdef __x86_64__
// Workers have started before the caller changes its mode.
TEST(Team, WorkersComputeInTheCallersFloatMode) {
  constexpr unsigned kFlushToZero = 0x8000;
  Team team(3);
  const TeamScope scope(&team);
  const unsigned before = __builtin_ia32_stmxcsr();
  for (const unsigned mode : {0u, kFlushToZero, 0u}) {
    __builtin_ia32_ldmxcsr((before & ~kFlushToZero) | mode);
    std::atomic<int> other = 0;
    for (int round = 0; round < 20; ++round) {
      parallel_for(12, true, [&](int64_t, int64_t, int thread) {
        if ((__builtin_ia32_stmxcsr() & kFlushToZero) != mode) ++other;
        pause_us(100 + 100 * (thread % 2));
      });
    }
    EXPECT_EQ(other, 0);
  }
  __builtin_ia32_ldmxcsr(before);
}
#endif

TEST(Team, WithoutATeamAndWithinALoopALoopRunsAlone) {
  std::vector<std::pair<int64_t, int64_t>> calls;
  const auto note = [&](int64_t begin, int64_t end) { calls.emplace_back(begin, end); };
  parallel_for(100, true, note);
  EXPECT_EQ(calls, (std::vector<std::pair<int64_t, int64_t>>{{0, 100}}));
  Team team(2);
  const TeamScope scope(&team);
  EXPECT_EQ(team_threads(), 2);
  calls.clear();
  parallel_for(100, false, note);
  EXPECT_EQ(calls, (std::vector<std::pair<int64_t, int64_t>>{{0, 100}}));
  std::atomic<int> inner = 0, outer = 0, teams = 0;
  parallel_for(8, true, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      ++outer;
      if (Team::current() != nullptr) ++teams;
      parallel_for(100, true, [&](int64_t b, int64_t e) { inner += b == 0 && e == 100 ? 1 : 1000; });
    }
  });
  EXPECT_EQ(outer, 8);
  EXPECT_EQ(inner, 8);
  EXPECT_EQ(teams, 0);
  EXPECT_EQ(Team::current(), &team);
}

// Each loop reads what the one before has written, elsewhere.
TEST(Team, LoopsFollowOneAnother) {
  Team team(3);
  const TeamScope scope(&team);
  constexpr int64_t kCount = 257;
  std::vector<int64_t> from(kCount), to(kCount);
  const int rounds = test::random_cases(2000);
  for (int round = 0; round < rounds; ++round) {
    parallel_for(kCount, true, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k)
        to[static_cast<size_t>(k)] = from[static_cast<size_t>(kCount - 1 - k)] + 1;
    });
    std::swap(from, to);
    if (round % 500 == 499) usleep(1000);  // workers sleep
  }
  EXPECT_TRUE(std::ranges::all_of(from, [&](int64_t v) { return v == rounds; }));
}

TEST(Team, MembersOfAGangPassEveryBarrierTogether) {
  int several = 0;
  for (const int threads : kThreads) {
    Team team(threads);
    constexpr int kSteps = 20;
    // Workers come in time if the machine has a processor for them.
    for (int round = 0; round < (threads == 1 ? 3 : 500) && several < 10 * threads; ++round) {
      struct Shared {
        Team& team;
        std::atomic<int64_t> members = 0, called = 0;
        std::atomic<int> arrived[kSteps] = {};
        std::atomic<int> wrong = 0;
      } shared{team};
      team.gang(
          4,
          [](const void* context, int64_t me, int64_t members, int) {
            Shared& s = *static_cast<Shared*>(const_cast<void*>(context));
            s.members = members;
            ++s.called;
            if (me < 0 || me >= members) ++s.wrong;
            for (auto& arrived : s.arrived) {
              if (me != 0) pause_us(20);
              ++arrived;
              s.team.wait_for_all(members);
              if (arrived != members) ++s.wrong;
              s.team.wait_for_all(members);
            }
          },
          &shared);
      EXPECT_EQ(shared.called, shared.members);
      EXPECT_LE(shared.members, std::min(threads, 4));
      several += shared.members > 1;
      EXPECT_EQ(shared.wrong, 0);
    }
  }
  if (std::thread::hardware_concurrency() > 1) {
    EXPECT_GT(several, 0);
  }
}

TEST(Team, TeamsOfSeveralThreadsDoNotMeet) {
  std::vector<std::thread> callers;
  std::atomic<int> wrong = 0;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      Team team(2);
      const TeamScope scope(&team);
      for (int round = 0; round < 200; ++round) {
        std::atomic<int64_t> sum = 0;
        parallel_for(1000, true, [&](int64_t begin, int64_t end) {
          int64_t own = 0;
          for (int64_t k = begin; k < end; ++k) own += k;
          sum += own;
        });
        if (sum != 499500) ++wrong;
      }
    });
  }
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(wrong, 0);
}

#ifndef __SANITIZE_THREAD__  // which does not follow children of processes with threads
// A child has no workers: its loops end, and so does the team that it has inherited.
TEST(Team, LoopsAndTeamsEndInTheChildOfAFork) {
  auto team = std::make_unique<Team>(4);
  const auto sum_of = [&] {
    const TeamScope scope(team.get());
    std::atomic<int64_t> sum = 0;
    parallel_for(1000, true, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) sum += k;
    });
    return sum.load();
  };
  EXPECT_EQ(sum_of(), 499500);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    const bool right = sum_of() == 499500;
    team.reset();
    _exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(sum_of(), 499500);
}
#endif

}  // namespace
}  // namespace braid::rt
