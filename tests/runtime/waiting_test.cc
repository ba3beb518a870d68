// Ranks that wait for each other in a circle disagree, and say so at once; a time-out names the rank at the
// end of a chain of waits.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/runtime/comm_cases.h"

namespace braid::rt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Far longer than a test may take: what is told before is not told by a time-out.
constexpr int64_t kNever = 3'600'000;

LaunchOptions options(int64_t timeout_ms) {
  return {.world = {.segment_bytes = 4096, .staging_bytes = 16 * 1024, .timeout_ms = timeout_ms},
          .pacing = {}};
}

std::vector<float> data(100'000), more(8);

CollectiveCall send_to(int peer, size_t count) {
  return {.kind = CollectiveKind::send, .peer = peer, .count = count, .input = data.data(), .label = "s"};
}
CollectiveCall receive_from(int peer) {
  return {.kind = CollectiveKind::recv, .peer = peer, .count = 8, .output = more.data(), .label = "r"};
}
CollectiveCall reduce(const char* label) {
  return {.kind = CollectiveKind::all_reduce,
          .count = 8,
          .input = data.data(),
          .output = more.data(),
          .label = label};
}
CollectiveCall barrier_named(const char* label) { return {.kind = CollectiveKind::barrier, .label = label}; }

class Circle : public ::testing::TestWithParam<Ranks> {};
INSTANTIATE_TEST_SUITE_P(Faults, Circle, ::testing::Values(Ranks::threads, Ranks::processes),
                         [](const auto& info) {
                           return info.param == Ranks::threads ? std::string("threads") : "processes";
                         });

TEST_P(Circle, of_a_large_send_and_an_all_reduce_is_a_disagreement) {
  run_ranks(GetParam(), 2, options(kNever), [](World& world) {
    Communicator* all = make_group(world, {0, 1}, "tp");
    EXPECT_TRUE(all->run(barrier_named("before")).ok());
    const Status status = all->run(world.rank() == 0 ? send_to(1, data.size()) : reduce("sum"));
    EXPECT_EQ(status.code, StatusCode::disagreement) << status.message;
    EXPECT_THAT(status.message,
                AllOf(HasSubstr("ranks disagree about what comes next"),
                      HasSubstr("rank 0 waits for rank 1 in send 's' (collective 0 of group 'tp[0->1]'"),
                      HasSubstr("rank 1 waits for rank 0 in all_reduce 'sum' (collective 1 of group 'tp'")));
  });
}

// The send is handed over and its rank goes on, to its end.
TEST_P(Circle, of_a_small_send_and_an_all_reduce_is_a_disagreement) {
  run_ranks(GetParam(), 2, options(kNever), [](World& world) {
    Communicator* all = make_group(world, {0, 1}, "tp");
    EXPECT_TRUE(all->run(barrier_named("before")).ok());
    if (world.rank() == 0) {
      Ticket ticket;
      EXPECT_TRUE(all->start(send_to(1, 8), &ticket).ok());
      EXPECT_TRUE(all->wait(ticket).ok());
      return;
    }
    const Status status = all->run(reduce("sum"));
    EXPECT_EQ(status.code, StatusCode::disagreement) << status.message;
    EXPECT_THAT(status.message,
                AllOf(HasSubstr("rank 0 has left after send 's' (f32 x 8) in group 'tp[0->1]', which rank 1 "
                                "has not called"),
                      HasSubstr("all_reduce 'sum'")));
  });
}

TEST_P(Circle, of_a_receive_and_an_all_reduce_is_a_disagreement) {
  run_ranks(GetParam(), 2, options(kNever), [](World& world) {
    Communicator* all = make_group(world, {0, 1}, "tp");
    const Status status = all->run(world.rank() == 0 ? receive_from(1) : reduce("sum"));
    EXPECT_EQ(status.code, StatusCode::disagreement) << status.message;
    EXPECT_THAT(status.message, AllOf(HasSubstr("in recv 'r'"), HasSubstr("in all_reduce 'sum'")));
  });
}

TEST_P(Circle, of_three_ranks_in_three_groups_is_a_disagreement) {
  run_ranks(GetParam(), 3, options(kNever), [](World& world) {
    const int me = world.rank();
    Communicator* groups[] = {make_group(world, {0, 1}, "a"), make_group(world, {1, 2}, "b"),
                              make_group(world, {0, 2}, "c")};
    const int first[] = {0, 1, 2};  // rank 0: a, with 1; rank 1: b, with 2; rank 2: c, with 0
    const Status status = groups[first[me]]->run(reduce("sum"));
    EXPECT_EQ(status.code, StatusCode::disagreement) << status.message;
    for (const char* part : {"rank 0 waits for rank 1", "rank 1 waits for rank 2", "rank 2 waits for rank 0",
                             "group 'a'", "group 'b'", "group 'c'"}) {
      EXPECT_THAT(status.message, HasSubstr(part));
    }
  });
}

// Each waits for the other, but for what the other has started and goes on with while it is blocked.
TEST_P(Circle, of_waits_for_what_has_been_started_is_none) {
  run_ranks(GetParam(), 2, options(kNever), [](World& world) {
    Communicator* left = make_group(world, {0, 1}, "left");
    Communicator* right = make_group(world, {0, 1}, "right");
    std::vector<float> sums(2 * data.size());
    for (int k = 0; k < 5; ++k) {
      Ticket a, b;
      const CollectiveCall call{.kind = CollectiveKind::all_reduce,
                                .count = data.size(),
                                .input = data.data(),
                                .output = sums.data()};
      CollectiveCall other = call;
      other.output = sums.data() + data.size();
      ASSERT_TRUE(left->start(call, &a).ok());
      if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(120));
      ASSERT_TRUE(right->start(other, &b).ok());
      const bool first = world.rank() == 0;
      EXPECT_TRUE((first ? left->wait(a) : right->wait(b)).ok());
      EXPECT_TRUE((first ? right->wait(b) : left->wait(a)).ok());
      EXPECT_TRUE(left->release(a).ok());
      EXPECT_TRUE(right->release(b).ok());
    }
  });
}

// Rank 3 stalls; 2 waits for it, 1 for 2 and 0 for 1, each in a group of two. Rank 0 is the first whose time
// is up.
TEST_P(Circle, is_none_where_a_rank_stalls_and_the_time_out_names_that_rank) {
  run_ranks(GetParam(), 4, options(3000), [](World& world) {
    const int me = world.rank();
    Communicator* all = make_group(world, first_ranks(4), "all");
    Communicator* up = me < 3 ? make_group(world, {me, me + 1}, "up" + std::to_string(me)) : nullptr;
    if (me > 0) (void)make_group(world, {me - 1, me}, "up" + std::to_string(me - 1));
    EXPECT_TRUE(all->run(barrier_named("before")).ok());
    if (me == 3) {
      while (world.last_error().ok()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100 * me));
    const Status status = up->run(reduce("sum"));
    EXPECT_EQ(status.code, StatusCode::timed_out) << status.message;
    EXPECT_THAT(status.message, AllOf(HasSubstr("timed out after 3000 ms"), HasSubstr("rank 3")));
  });
}

TEST(Faults, a_time_out_says_that_the_missing_rank_is_stopped) {
  const Status status = launch_processes(3, options(3000), [](World& world) {
    Communicator* all = make_group(world, first_ranks(3), "tp");
    EXPECT_TRUE(all->run(barrier_named("before")).ok());
    if (world.rank() == 2) raise(SIGSTOP);
    const Status missed = all->run(barrier_named("after"));
    EXPECT_THAT(missed.message, AllOf(HasSubstr("timed out"), HasSubstr("rank 2 has not started it"),
                                      HasSubstr("; rank 2 (process "), HasSubstr(") is stopped")));
    if (::testing::Test::HasFailure()) abort();
    return 1;
  });
  EXPECT_THAT(status.message, AllOf(HasSubstr("rank 2"), Not(HasSubstr("signal 6"))));
}

}  // namespace
}  // namespace braid::rt::testing
