// A rank that dies, stalls or leaves in the middle of a collective of each kind, with data that goes through
// staging in many pieces, so that all others have begun and none can finish.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/runtime/comm_cases.h"

namespace braid::rt::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kRanks = 3;
constexpr int kVictim = 1;
constexpr size_t kCount = 100'000;  // 25 times the staging area and more

struct Kind {
  const char* name;
  CollectiveKind kind;
  int peer;  // broadcast: root; send and recv: the sender, as in Case
};
class InFlight : public ::testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Of, InFlight,
                         ::testing::Values(Kind{"all_reduce", CollectiveKind::all_reduce, 0},
                                           Kind{"all_gather", CollectiveKind::all_gather, 0},
                                           Kind{"reduce_scatter", CollectiveKind::reduce_scatter, 0},
                                           Kind{"broadcast_to_the_victim", CollectiveKind::broadcast, 0},
                                           Kind{"broadcast_of_the_victim", CollectiveKind::broadcast,
                                                kVictim},
                                           Kind{"all_to_all", CollectiveKind::all_to_all, 0},
                                           Kind{"recv_by_the_victim", CollectiveKind::send, kVictim - 1},
                                           Kind{"send_of_the_victim", CollectiveKind::send, kVictim}),
                         [](const auto& info) { return std::string(info.param.name); });

LaunchOptions options(int64_t timeout_ms) {
  return {.world = {.segment_bytes = 4096, .staging_bytes = 16 * 1024, .timeout_ms = timeout_ms},
          .pacing = {}};
}

Case case_of(const Kind& kind) {
  Case c;
  c.kind = kind.kind;
  c.count = kCount;
  c.peer = kind.peer;
  return c;
}

// Starts the case, after a barrier of all; false for a rank that has no part in it.
bool start_case(World& world, const Kind& kind, Communicator** group, Buffers* buffers, Ticket* ticket) {
  *group = make_group(world, first_ranks(kRanks), "tp");
  const Status met = (*group)->run({.kind = CollectiveKind::barrier, .label = "before"});
  EXPECT_TRUE(met.ok()) << met.message;
  const Case c = case_of(kind);
  if (!takes_part(c, world.rank())) return false;
  *buffers = place(c, kRanks, world.rank(), nullptr);
  CollectiveCall call = call_of(c, world.rank(), *buffers);
  call.label = "/layer.3/Node";
  const Status started = (*group)->start(call, ticket);
  EXPECT_TRUE(started.ok()) << started.message;
  return true;
}

TEST_P(InFlight, a_killed_rank_is_named_on_all_others) {
  const Status status = launch_processes(kRanks, options(20'000), [&](World& world) {
    Communicator* group = nullptr;
    Buffers buffers;
    Ticket ticket;
    const bool part = start_case(world, GetParam(), &group, &buffers, &ticket);
    if (world.rank() == kVictim) kill(getpid(), SIGKILL);
    const Status missed =
        part ? group->wait(ticket) : group->run({.kind = CollectiveKind::barrier, .label = "after"});
    EXPECT_EQ(missed.code, StatusCode::peer_died) << missed.message;
    EXPECT_THAT(missed.message, AllOf(HasSubstr("rank 1"), HasSubstr("died"), HasSubstr("group 'tp"),
                                      AnyOf(HasSubstr("/layer.3/Node"), HasSubstr("'after'"))));
    return ::testing::Test::HasFailure() ? 3 : 0;
  });
  EXPECT_THAT(status.message, AllOf(HasSubstr("rank 1"), HasSubstr("killed by signal 9")));
  EXPECT_THAT(status.message, Not(HasSubstr("exited with"))) << "a survivor failed its expectations";
}

TEST_P(InFlight, a_stalled_rank_is_named_on_all_others) {
  std::atomic<int> told = 0;
  run_ranks(Ranks::threads, kRanks, options(1000), [&](World& world) {
    Communicator* group = nullptr;
    Buffers buffers;
    Ticket ticket;
    const bool part = start_case(world, GetParam(), &group, &buffers, &ticket);
    if (world.rank() == kVictim) {
      while (told < kRanks - 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      EXPECT_EQ(group->wait(ticket).code, StatusCode::timed_out) << "the stalled rank learns of it too";
      return;
    }
    const Status missed =
        part ? group->wait(ticket) : group->run({.kind = CollectiveKind::barrier, .label = "after"});
    EXPECT_EQ(missed.code, StatusCode::timed_out) << missed.message;
    EXPECT_THAT(missed.message,
                AllOf(HasSubstr("timed out after 1000 ms"), HasSubstr("rank 1"), HasSubstr("group 'tp"),
                      AnyOf(HasSubstr("/layer.3/Node"), HasSubstr("'after'"))));
    ++told;
  });
}

TEST_P(InFlight, a_rank_that_leaves_is_named_on_all_others) {
  run_ranks(Ranks::threads, kRanks, options(20'000), [&](World& world) {
    Communicator* group = nullptr;
    Buffers buffers;
    Ticket ticket;
    const bool part = start_case(world, GetParam(), &group, &buffers, &ticket);
    if (world.rank() == kVictim) return;
    const Status missed =
        part ? group->wait(ticket) : group->run({.kind = CollectiveKind::barrier, .label = "after"});
    EXPECT_EQ(missed.code, StatusCode::peer_left) << missed.message;
    EXPECT_THAT(missed.message, AllOf(HasSubstr("rank 1 has left"), HasSubstr("group 'tp")));
  });
}

TEST(Faults, shared_memory_that_may_not_grow_is_an_error_not_a_signal) {
  run_ranks(Ranks::processes, 2, {.world = {.segment_bytes = 4096}, .pacing = {}}, [](World&) {
    // As full as a small tmpfs: no file of this process grows beyond 1 MiB.
    const rlimit limit{1 << 20, 1 << 20};
    signal(SIGXFSZ, SIG_IGN);  // a full file system has no signal
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    SharedMemory memory;
    const Status status = SharedMemory::create(2, {.segment_bytes = 8 << 20}, &memory);
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.message, HasSubstr("bytes of shared memory"));
  });
}

}  // namespace
}  // namespace braid::rt::testing
