// A worker that waits is kept off its caller's processor, and off nothing when it runs again.
#include "runtime/waiting_place.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <semaphore>
#include <thread>
#include <vector>

#include "runtime/team.h"

namespace braid::rt {
namespace {

cpu_set_t allowed_of(pthread_t thread) {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(pthread_getaffinity_np(thread, sizeof set, &set), 0);
  return set;
}

std::vector<int> processors(const cpu_set_t& set) {
  std::vector<int> result;
  for (int k = 0; k < CPU_SETSIZE; ++k) {
    if (CPU_ISSET(static_cast<std::size_t>(k), &set)) result.push_back(k);
  }
  return result;
}

// A thread that notes its place, waits, releases it and waits again.
struct Worker {
  WaitingPlace place;
  std::binary_semaphore noted{0}, runs{0}, released{0}, ends{0};
  std::thread thread{[this] {
    place.note();
    noted.release();
    runs.acquire();
    place.release();
    released.release();
    ends.acquire();
  }};
  Worker() { noted.acquire(); }
  ~Worker() {
    ends.release();
    thread.join();
  }
  void run() {
    runs.release();
    released.acquire();
  }
  std::vector<int> allowed() { return processors(allowed_of(thread.native_handle())); }
};

TEST(WaitingPlace, IsKeptOffAProcessorUntilItsThreadRuns) {
  Worker worker;
  const std::vector<int> before = worker.allowed();
  if (before.size() < 2) GTEST_SKIP() << "one processor";
  int at = -1;
  for (const int processor : before) at = worker.place.is_at(processor) ? processor : at;
  ASSERT_GE(at, 0) << "it waits on one of its processors";
  worker.place.keep_off(at, worker.thread.native_handle());
  std::vector<int> others = before;
  std::erase(others, at);
  EXPECT_EQ(worker.allowed(), others);
  worker.place.keep_off(others[0], worker.thread.native_handle());
  EXPECT_EQ(worker.allowed(), others) << "once";
  worker.run();
  EXPECT_EQ(worker.allowed(), before);
  EXPECT_FALSE(worker.place.is_at(at)) << "it does not wait";
}

TEST(WaitingPlace, WithOneProcessorNothingHappens) {
  Worker worker;
  const int only = worker.allowed()[0];
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(only), &one);
  ASSERT_EQ(pthread_setaffinity_np(worker.thread.native_handle(), sizeof one, &one), 0);
  worker.place.keep_off(only, worker.thread.native_handle());
  EXPECT_EQ(worker.allowed(), std::vector{only});
  worker.run();
  EXPECT_EQ(worker.allowed(), std::vector{only});
}

// Callers that change their processor between loops leave their workers all processors.
TEST(WaitingPlace, WorkersOfATeamMayRunAnywhere) {
  const cpu_set_t all = allowed_of(pthread_self());
  const std::vector<int> before = processors(all);
  Team team(2);
  const TeamScope scope(&team);
  std::atomic<int> came = 0, anywhere = 0;
  const auto loop = [&] {
    parallel_for(8, true, [&](int64_t, int64_t, int thread) {
      if (thread != 0) {
        ++came;
        anywhere += processors(allowed_of(pthread_self())) == before;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    });
  };
  loop();  // workers may run where the thread may that starts them
  for (int k = 0; k < 40; ++k) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(before[static_cast<std::size_t>(k) % before.size()]), &one);
    ASSERT_EQ(pthread_setaffinity_np(pthread_self(), sizeof one, &one), 0);
    loop();
    // Long enough for workers to sleep.
    if (k % 4 == 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_EQ(pthread_setaffinity_np(pthread_self(), sizeof all, &all), 0);
  if (before.size() < 2) return;
  EXPECT_GT(came.load(), 0);
  // A worker that is late may compute a loop while it is kept off a processor, but not always.
  anywhere = 0;
  for (int k = 0; k < 200 && anywhere.load() == 0; ++k) loop();
  EXPECT_GT(anywhere.load(), 0);
}

}  // namespace
}  // namespace braid::rt
