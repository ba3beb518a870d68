// wait says nothing about the peers: only release tells that they have finished reading.
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/runtime/comm_cases.h"

namespace braid::rt::testing {
namespace {

constexpr size_t kCount = 1000;

CollectiveCall sum_in_segment(World& world) {
  auto* data = reinterpret_cast<float*>(world.segment());
  return {.kind = CollectiveKind::all_reduce,
          .algorithm = Algorithm::one_shot,
          .count = kCount,
          .input = data,
          .output = data + kCount};
}

// Rank 0 finishes and overwrites its input while rank 1 has not looked at it yet. Returns what rank 1 got.
float sum_seen_by_a_slow_rank(bool with_release) {
  float seen = 0;
  std::atomic<bool> overwritten = false;
  std::atomic<bool> waiting = false;
  // A worker of the slow rank would not be slow.
  const LaunchOptions options{.world = {.segment_bytes = 1 << 16, .worker = CommWorker::off}, .pacing = {}};
  run_ranks(Ranks::threads, 2, options, [&](World& world) {
    Communicator* all = make_group(world, {0, 1}, "all");
    const CollectiveCall call = sum_in_segment(world);
    auto* data = reinterpret_cast<float*>(world.segment());
    std::fill(data, data + kCount, 1.0f);
    Ticket ticket;
    ASSERT_TRUE(all->start(call, &ticket).ok());
    if (world.rank() == 0) {
      ASSERT_TRUE(all->wait(ticket).ok());
      if (with_release) {
        ASSERT_TRUE(all->release(ticket).ok());
        EXPECT_TRUE(waiting) << "released before the peer had read";
      }
      std::fill(data, data + kCount, 100.0f);
      overwritten = true;
    } else {
      if (with_release) {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
      } else {
        while (!overwritten) std::this_thread::yield();
      }
      waiting = true;
      ASSERT_TRUE(all->wait(ticket).ok());
      seen = data[kCount];
    }
  });
  return seen;
}

TEST(Release, holds_a_fast_rank_until_a_slow_peer_has_read) {
  EXPECT_EQ(sum_seen_by_a_slow_rank(true), 2.0f);
}

TEST(Release, is_what_keeps_the_data_and_not_luck) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the planted overwrite is a data race";
#endif
  EXPECT_EQ(sum_seen_by_a_slow_rank(false), 101.0f);
}

TEST(Release, is_proved_by_a_later_collective_of_the_group) {
  run_ranks(Ranks::threads, 3, {.world = {.segment_bytes = 1 << 16}}, [](World& world) {
    Communicator* all = make_group(world, {0, 1, 2}, "all");
    Ticket first, second;
    ASSERT_TRUE(all->start(sum_in_segment(world), &first).ok());
    ASSERT_TRUE(all->wait(first).ok());
    ASSERT_TRUE(all->start({.kind = CollectiveKind::barrier}, &second).ok());
    ASSERT_TRUE(all->wait(second).ok());
    ASSERT_TRUE(all->release(first).ok());
  });
}

TEST(Release, before_wait_is_refused) {
  run_ranks(Ranks::threads, 2, {.world = {.segment_bytes = 1 << 16}}, [](World& world) {
    Communicator* all = make_group(world, {0, 1}, "all");
    Ticket ticket;
    ASSERT_TRUE(all->start(sum_in_segment(world), &ticket).ok());
    EXPECT_EQ(all->release(ticket).code, StatusCode::invalid_argument);
    EXPECT_TRUE(all->wait(ticket).ok());
    EXPECT_TRUE(all->release(ticket).ok());
  });
}

}  // namespace
}  // namespace braid::rt::testing
