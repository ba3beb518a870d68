// Large data in ordinary memory that the peers read where it is, and what happens when its owner is gone.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/runtime/comm_cases.h"

namespace braid::rt::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr CollectiveKind kKinds[] = {CollectiveKind::all_reduce,     CollectiveKind::all_gather,
                                     CollectiveKind::reduce_scatter, CollectiveKind::broadcast,
                                     CollectiveKind::all_to_all,     CollectiveKind::send};

LaunchOptions with_reads(bool peer_reads) {
  return {.world = {.segment_bytes = 8 << 20,
                    .staging_bytes = 32 * 1024,
                    .peer_reads = peer_reads,
                    .timeout_ms = 20'000},
          .pacing = {}};
}

class PeerReadsOnOrOff : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Reads, PeerReadsOnOrOff, ::testing::Bool());

TEST_P(PeerReadsOnOrOff, every_kind_has_the_oracles_result_for_large_blocks_and_mixed_places) {
  for (const Ranks ranks : {Ranks::threads, Ranks::processes}) {
    for (const int n : {2, 3}) {
      run_ranks(ranks, n, with_reads(GetParam()), [&](World& world) {
        Communicator* all = make_group(world, first_ranks(n), "all");
        int salt = 0;
        for (int repeat = 0; repeat < 2;
             ++repeat) {  // the first collective of a group still goes through staging
          for (const CollectiveKind kind : kKinds) {
            for (const Place place : kAllPlaces) {
              for (const bool in_place : {false, true}) {
                for (const Algorithm algorithm : {Algorithm::automatic, Algorithm::one_shot}) {
                  if (algorithm != Algorithm::automatic && kind != CollectiveKind::all_reduce) continue;
                  run_case(*all, world,
                           {.kind = kind,
                            .dtype = DType::f32,
                            .algorithm = algorithm,
                            .count = 30'003,
                            .peer = kind == CollectiveKind::broadcast ? salt % n
                                    : kind == CollectiveKind::send    ? salt % (n - 1)
                                                                      : 0,
                            .place = place,
                            .in_place = in_place,
                            .salt = salt});
                  ++salt;
                }
              }
            }
          }
        }
      });
    }
  }
}

TEST(PeerReads, a_message_of_many_pieces_arrives_whole_whoever_copies_them) {
  for (const Ranks ranks : {Ranks::threads, Ranks::processes}) {
    run_ranks(ranks, 2, with_reads(true), [](World& world) {
      Communicator* all = make_group(world, {0, 1}, "pair");
      for (int salt = 0; salt < 20; ++salt) {
        run_case(
            *all, world,
            {.kind = CollectiveKind::send, .dtype = DType::i32, .count = 500'009, .peer = 0, .salt = salt});
        run_case(*all, world,
                 {.kind = CollectiveKind::broadcast,
                  .dtype = DType::u8,
                  .count = 300'007,
                  .peer = salt % 2,
                  .salt = salt});
      }
    });
  }
}

// The sender of two messages may wait for the first when the second has been received as well.
TEST(PeerReads, a_message_that_its_receiver_has_taken_is_not_written_again) {
  for (const size_t count : {size_t{4'000}, size_t{500'009}}) {  // of one piece and of many
    std::atomic<int> stage = 0;
    const auto until = [&](int reached) {
      while (stage < reached) std::this_thread::yield();
    };
    run_ranks(Ranks::threads, 2, with_reads(true), [&](World& world) {
      Communicator* pair = make_group(world, {0, 1}, "pair");
      for (int salt = 0; salt < 2; ++salt)  // until it is known which rank can read
        run_case(
            *pair, world,
            {.kind = CollectiveKind::send, .dtype = DType::f32, .count = count, .peer = 0, .salt = salt});
      std::vector<float> first(count, world.rank() == 0 ? 1.0f : 0.0f);
      std::vector<float> second(count, world.rank() == 0 ? 2.0f : 0.0f);
      Ticket tickets[2];
      const auto start = [&](int k, std::vector<float>& data) {
        CollectiveCall call{.kind = CollectiveKind::send, .count = count, .label = "message"};
        call.peer = 1;
        if (world.rank() == 0) {
          call.input = data.data();
        } else {
          call.kind = CollectiveKind::recv;
          call.peer = 0;
          call.output = data.data();
        }
        ASSERT_TRUE(pair->start(call, &tickets[k]).ok());
      };
      if (world.rank() == 0) {
        start(0, first);
        start(1, second);
        until(1);
        for (const Ticket& ticket : tickets) ASSERT_TRUE(pair->wait(ticket).ok());
        stage = 2;
      } else {
        start(0, first);
        ASSERT_TRUE(pair->wait(tickets[0]).ok());
        start(1, second);
        ASSERT_TRUE(pair->wait(tickets[1]).ok());
        EXPECT_EQ(first, std::vector<float>(count, 1.0f));
        EXPECT_EQ(second, std::vector<float>(count, 2.0f));
        std::fill(first.begin(), first.end(), 7.0f);  // it is the receiver's own again
        stage = 1;
        until(2);
        EXPECT_EQ(first, std::vector<float>(count, 7.0f));
      }
    });
  }
}

// A sender that waits does not depend on a receiver that has begun and computes.
TEST(PeerReads, a_message_arrives_while_its_receiver_is_in_no_call) {
  int from = 1, to = 0;
  const iovec local{&to, sizeof to}, remote{&from, sizeof from};
  if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) < 0)
    GTEST_SKIP() << "this container forbids process_vm_readv: messages are staged";
  for (const size_t count : {size_t{4'000}, size_t{500'009}}) {
    run_ranks(Ranks::threads, 2, with_reads(true), [&](World& world) {
      Communicator* pair = make_group(world, {0, 1}, "pair");
      for (int salt = 0; salt < 2; ++salt)
        run_case(
            *pair, world,
            {.kind = CollectiveKind::send, .dtype = DType::f32, .count = count, .peer = 0, .salt = salt});
      std::vector<float> data(count, world.rank() == 0 ? 1.0f : 0.0f);
      CollectiveCall call{.kind = CollectiveKind::send, .count = count, .label = "message"};
      Ticket ticket;
      if (world.rank() == 0) {
        call.peer = 1;
        call.input = data.data();
        ASSERT_TRUE(pair->start(call, &ticket).ok());
        ASSERT_TRUE(pair->wait(ticket).ok());
      } else {
        call.kind = CollectiveKind::recv;
        call.peer = 0;
        call.output = data.data();
        ASSERT_TRUE(pair->start(call, &ticket).ok());
        std::atomic_ref<float> last(data.back());
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
        while (last.load() != 1.0f && std::chrono::steady_clock::now() < end) std::this_thread::yield();
        EXPECT_EQ(last.load(), 1.0f) << "nothing came while this rank was in no call";
        ASSERT_TRUE(pair->wait(ticket).ok());
        EXPECT_EQ(data, std::vector<float>(count, 1.0f));
      }
    });
  }
}

// The memory of a killed process cannot be read; a rank that needs it must learn which process it was.
TEST(PeerReads, a_killed_rank_is_named_when_its_memory_is_gone) {
  for (const CollectiveKind kind : kKinds) {
    const Status status = launch_processes(2, with_reads(true), [&](World& world) {
      Communicator* group = make_group(world, {0, 1}, "tp");
      Case c{.kind = kind, .count = 200'000, .peer = 1};
      if (kind == CollectiveKind::send) c.peer = 0;
      run_case(*group, world, c);
      run_case(*group, world, c);
      const Status met = group->run({.kind = CollectiveKind::barrier, .label = "before"});
      EXPECT_TRUE(met.ok()) << met.message;
      Buffers buffers = place(c, 2, world.rank(), nullptr);
      CollectiveCall call = call_of(c, world.rank(), buffers);
      call.label = "/layer.3/Node";
      Ticket ticket;
      EXPECT_TRUE(group->start(call, &ticket).ok());
      if (world.rank() == 1) kill(getpid(), SIGKILL);
      Status missed = group->wait(ticket);
      // A broadcast may have been read before its root died.
      if (missed.ok()) missed = group->run({.kind = CollectiveKind::barrier, .label = "after"});
      EXPECT_EQ(missed.code, StatusCode::peer_died) << missed.message;
      EXPECT_THAT(missed.message, AllOf(HasSubstr("rank 1"), HasSubstr("died"),
                                        AnyOf(HasSubstr("/layer.3/Node"), HasSubstr("'after'"))));
      return ::testing::Test::HasFailure() ? 3 : 0;
    });
    EXPECT_THAT(status.message, AllOf(HasSubstr("rank 1"), HasSubstr("killed by signal 9")));
    EXPECT_THAT(status.message, ::testing::Not(HasSubstr("exited with")));
  }
}

}  // namespace
}  // namespace braid::rt::testing
