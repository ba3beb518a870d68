#include <time.h>

#include <chrono>
#include <thread>

#include "runtime/comm/futex.h"
#include "tests/runtime/comm_cases.h"

namespace braid::rt::testing {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

double thread_cpu_ms() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

LaunchOptions paced(int64_t latency_ns, double bytes_per_ns) {
  return {.world = {.segment_bytes = 1 << 20}, .pacing = LinkPacing{latency_ns, bytes_per_ns}};
}

TEST(PacedLink, moves_the_data) {
  run_ranks(Ranks::threads, 3, paced(1000, 0), [](World& world) {
    Communicator* all = make_group(world, first_ranks(3), "all");
    for (const CollectiveKind kind :
         {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::all_to_all,
          CollectiveKind::reduce_scatter, CollectiveKind::broadcast, CollectiveKind::send}) {
      for (const Place place : kAllPlaces)
        run_case(*all, world, {.kind = kind, .count = 1001, .place = place});
    }
  });
}

TEST(PacedLink, a_wait_ends_no_earlier_than_latency_plus_bytes_over_bandwidth_after_the_last_start) {
  for (const Ranks ranks : {Ranks::threads, Ranks::processes}) {
    run_ranks(ranks, 2, paced(20'000'000, 0.001), [](World& world) {
      Communicator* all = make_group(world, {0, 1}, "all");
      std::vector<float> in(2500), out(2500);  // 10,000 bytes each way: 10 ms at 1 byte per us
      if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(15));
      const auto begin = Clock::now();
      EXPECT_TRUE(all->run({.kind = CollectiveKind::all_reduce,
                            .count = in.size(),
                            .input = in.data(),
                            .output = out.data()})
                      .ok());
      EXPECT_GE(ms_since(begin), world.rank() == 1 ? 30.0 : 30.0);
    });
  }
}

TEST(PacedLink, transfers_of_one_communicator_follow_each_other_and_others_do_not) {
  run_ranks(Ranks::threads, 2, paced(20'000'000, 0), [](World& world) {
    Communicator* a = make_group(world, {0, 1}, "a");
    Communicator* b = make_group(world, {0, 1}, "b");
    float in = 1, out[3] = {};
    Ticket tickets[3];
    const auto begin = Clock::now();
    const auto start = [&](Communicator* group, int i) {
      EXPECT_TRUE(
          group
              ->start({.kind = CollectiveKind::all_reduce, .count = 1, .input = &in, .output = &out[i]},
                      &tickets[i])
              .ok());
    };
    start(a, 0);
    start(a, 1);
    start(b, 2);
    EXPECT_TRUE(b->wait(tickets[2]).ok());
    EXPECT_TRUE(a->wait(tickets[1]).ok());
    EXPECT_GE(ms_since(begin), 40.0);
    EXPECT_FALSE(out[0] != 2 || out[1] != 2 || out[2] != 2);
  });
}

TEST(PacedLink, test_is_false_until_the_transfer_is_complete) {
  run_ranks(Ranks::threads, 2, paced(100'000'000, 0), [](World& world) {
    Communicator* all = make_group(world, {0, 1}, "all");
    Ticket ticket;
    const auto begin = Clock::now();
    EXPECT_TRUE(all->start({.kind = CollectiveKind::barrier}, &ticket).ok());
    while (!all->test(ticket)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_GE(ms_since(begin), 100.0);
  });
}

TEST(PacedLink, waiting_takes_no_processor_time) {
  run_ranks(Ranks::threads, 2, paced(200'000'000, 0), [](World& world) {
    Communicator* all = make_group(world, {0, 1}, "all");
    const double before = thread_cpu_ms();
    EXPECT_TRUE(all->run({.kind = CollectiveKind::barrier}).ok());
    EXPECT_LT(thread_cpu_ms() - before, 100.0);
  });
}

TEST(PacedLink, says_when_it_delivered_and_how_long_the_wait_slept) {
  run_ranks(Ranks::threads, 2, paced(20'000'000, 0), [](World& world) {
    Communicator* all = make_group(world, {0, 1}, "all");
    float in = 1, out = 0;
    Ticket t;
    const int64_t begin = monotonic_ns();
    EXPECT_TRUE(
        all->start({.kind = CollectiveKind::all_reduce, .count = 1, .input = &in, .output = &out}, &t).ok());
    EXPECT_TRUE(all->wait(t).ok());
    const LinkTimes times = all->link_times(t);
    EXPECT_GE(times.due_ns, begin + 20'000'000);
    EXPECT_LE(times.due_ns, monotonic_ns());
    EXPECT_GT(times.slept_ns, 0);
    EXPECT_LE(times.slept_ns, 20'000'000);
  });
}

}  // namespace
}  // namespace braid::rt::testing
