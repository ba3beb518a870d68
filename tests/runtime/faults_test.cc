#include <dirent.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <set>
#include <thread>

#include "tests/runtime/comm_cases.h"

namespace braid::rt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::set<std::string> files_in_dev_shm() {
  std::set<std::string> names;
  if (DIR* directory = opendir("/dev/shm")) {
    while (const dirent* entry = readdir(directory)) {
      if (std::string(entry->d_name).find("braid") != std::string::npos) names.insert(entry->d_name);
    }
    closedir(directory);
  }
  return names;
}

LaunchOptions with_timeout(int64_t ms) { return {.world = {.segment_bytes = 4096, .timeout_ms = ms}}; }

CollectiveCall barrier(const char* label) { return {.kind = CollectiveKind::barrier, .label = label}; }

TEST(Faults, a_killed_process_is_named_on_all_others) {
  const Status status = launch_processes(4, with_timeout(20'000), [](World& world) {
    Communicator* all = make_group(world, first_ranks(4), "tp");
    if (!all->run(barrier("before")).ok()) return 2;
    if (world.rank() == 2) kill(getpid(), SIGKILL);
    const Status missed = all->run(barrier("/layer.3/attn/AllReduce"));
    EXPECT_EQ(missed.code, StatusCode::peer_died) << missed.message;
    EXPECT_THAT(missed.message,
                AllOf(HasSubstr("rank 2"), HasSubstr("died"), HasSubstr("/layer.3/attn/AllReduce"),
                      HasSubstr("'tp'"), HasSubstr("collective 1")));
    return ::testing::Test::HasFailure() ? 3 : 0;
  });
  EXPECT_THAT(status.message, AllOf(HasSubstr("rank 2"), HasSubstr("killed by signal 9")));
  EXPECT_THAT(status.message, ::testing::Not(HasSubstr("exited with")))
      << "a survivor failed its expectations";
  EXPECT_TRUE(files_in_dev_shm().empty());
}

TEST(Faults, a_death_is_told_to_groups_that_the_dead_rank_was_not_in) {
  const Status status = launch_processes(3, with_timeout(20'000), [](World& world) {
    Communicator* left = make_group(world, {0, 1}, "left");
    Communicator* right = make_group(world, {1, 2}, "right");
    EXPECT_TRUE(make_group(world, first_ranks(3), "all")->run(barrier("all are set up")).ok());
    if (world.rank() == 2) kill(getpid(), SIGKILL);
    // Rank 1 waits for the dead rank, rank 0 for rank 1, which will never call.
    const Status missed = world.rank() == 1 ? right->run(barrier("r")) : left->run(barrier("l"));
    EXPECT_THAT(missed.message, AllOf(HasSubstr("rank 2"), HasSubstr("died")));
    return ::testing::Test::HasFailure() ? 3 : 0;
  });
  EXPECT_THAT(status.message, ::testing::Not(HasSubstr("exited with")));
}

TEST(Faults, a_stalled_rank_is_named_on_all_others) {
  std::atomic<int> errors = 0;
  run_ranks(Ranks::threads, 3, with_timeout(1000), [&](World& world) {
    Communicator* all = make_group(world, first_ranks(3), "tp");
    EXPECT_TRUE(all->run(barrier("before")).ok());
    if (world.rank() == 1) {
      while (errors < 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      EXPECT_EQ(world.last_error().code, StatusCode::timed_out);
      return;
    }
    const Status missed = all->run(barrier("mlp"));
    EXPECT_EQ(missed.code, StatusCode::timed_out) << missed.message;
    EXPECT_THAT(missed.message,
                AllOf(HasSubstr("timed out after 1000 ms"), HasSubstr("'mlp'"), HasSubstr("collective 1"),
                      HasSubstr("'tp'"), HasSubstr("rank 1 has not started"), HasSubstr("number 0")));
    ++errors;
  });
}

TEST(Faults, the_timeout_comes_from_the_environment) {
  setenv("BRAID_TIMEOUT_MS", "123", 1);
  std::atomic<bool> done = false;
  run_ranks(Ranks::threads, 2, {}, [&](World& world) {
    if (world.rank() == 0) {
      Communicator* all = make_group(world, {0, 1}, "tp");
      EXPECT_THAT(all->run(barrier("b")).message, HasSubstr("timed out after 123 ms"));
      done = true;
    }
    while (!done) std::this_thread::yield();
  });
  unsetenv("BRAID_TIMEOUT_MS");
}

class TimeoutVariable : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Faults, TimeoutVariable,
                         ::testing::Values("0", "-1", "abc", "12x", " 12", "1e3", "99999999999999999999",
                                           "1000000000001"));

TEST_P(TimeoutVariable, that_is_no_time_out_is_an_error) {
  setenv("BRAID_TIMEOUT_MS", GetParam(), 1);
  const Status threads = launch_threads(2, {}, [](World&) { return 0; });
  const Status processes = launch_processes(2, {}, [](World&) { return 0; });
  std::unique_ptr<World> world;
  const Status joined = join_world(0, 1, "no time-out", {}, &world);
  const Status own = launch_threads(2, with_timeout(100), [](World&) { return 0; });
  unsetenv("BRAID_TIMEOUT_MS");
  for (const Status& status : {threads, processes, joined}) {
    EXPECT_EQ(status.code, StatusCode::invalid_argument);
    EXPECT_THAT(status.message, AllOf(HasSubstr("BRAID_TIMEOUT_MS='" + std::string(GetParam()) + "'"),
                                      HasSubstr("is not a number from 1 to 1000000000000")));
  }
  EXPECT_TRUE(own.ok()) << "it is not asked where the program says its own: " << own.message;
}

TEST(Faults, an_empty_time_out_variable_is_none) {
  setenv("BRAID_TIMEOUT_MS", "", 1);
  EXPECT_TRUE(launch_threads(2, {}, [](World&) { return 0; }).ok());
  unsetenv("BRAID_TIMEOUT_MS");
}

TEST(Faults, a_time_out_of_the_program_that_is_none_is_an_error) {
  for (const int64_t ms : {int64_t{-1}, int64_t{1} << 60}) {
    EXPECT_EQ(launch_threads(2, with_timeout(ms), [](World&) { return 0; }).code,
              StatusCode::invalid_argument);
  }
}

TEST(Faults, an_engine_that_does_not_exist_is_an_error) {
  setenv("BRAID_ENGINE", "bogus", 1);
  std::unique_ptr<World> world;
  const Status joined = join_world_from_environment({}, &world);
  unsetenv("BRAID_ENGINE");
  EXPECT_EQ(joined.code, StatusCode::invalid_argument);
  EXPECT_THAT(joined.message, HasSubstr("BRAID_ENGINE='bogus' is not one of shm, mpi"));
}

TEST(Faults, a_rank_that_leaves_or_never_joins_is_named) {
  run_ranks(Ranks::threads, 2, with_timeout(20'000), [](World& world) {
    if (world.rank() == 1) return;
    Communicator* all = make_group(world, {0, 1}, "tp");
    const Status missed = all->run(barrier("b"));
    EXPECT_EQ(missed.code, StatusCode::peer_left);
    EXPECT_THAT(missed.message, AllOf(HasSubstr("rank 1 has left"), HasSubstr("never joined")));
  });
}

TEST(Faults, a_rank_that_left_after_doing_its_part_is_no_error) {
  run_ranks(Ranks::threads, 2, with_timeout(20'000), [](World& world) {
    Communicator* all = make_group(world, {0, 1}, "tp");
    int value = 7, got = 0;
    if (world.rank() == 0) {
      Ticket ticket;
      EXPECT_TRUE(
          all->start(
                 {.kind = CollectiveKind::send, .dtype = DType::i32, .peer = 1, .count = 1, .input = &value},
                 &ticket)
              .ok());
      EXPECT_TRUE(all->wait(ticket).ok());
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_TRUE(
        all->run({.kind = CollectiveKind::recv, .dtype = DType::i32, .peer = 0, .count = 1, .output = &got})
            .ok());
    EXPECT_EQ(got, 7);
  });
}

struct Disagreement {
  const char* name;
  CollectiveCall first, second;
  const char* first_text;
  const char* second_text;
};

class Disagreements : public ::testing::TestWithParam<Disagreement> {};

float dummy_in[64], dummy_out[64];
CollectiveCall sum(size_t count) {
  return {.kind = CollectiveKind::all_reduce,
          .count = count,
          .input = dummy_in,
          .output = dummy_out,
          .label = "sum"};
}
CollectiveCall with(CollectiveCall call, auto change) {
  change(call);
  return call;
}

INSTANTIATE_TEST_SUITE_P(
    Of, Disagreements,
    ::testing::Values(
        Disagreement{"count", sum(4), sum(5), "f32 x 4", "f32 x 5"},
        Disagreement{"kind", sum(4), with(sum(4), [](auto& c) { c.kind = CollectiveKind::all_gather; }),
                     "all_reduce", "all_gather"},
        Disagreement{"dtype", sum(4), with(sum(4), [](auto& c) { c.dtype = DType::i32; }), "f32", "i32"},
        Disagreement{"op", sum(4), with(sum(4), [](auto& c) { c.op = ReduceOp::max; }), "sum", "max"},
        Disagreement{"algorithm", with(sum(4), [](auto& c) { c.algorithm = Algorithm::one_shot; }),
                     with(sum(4), [](auto& c) { c.algorithm = Algorithm::two_shot; }), "one_shot",
                     "two_shot"},
        Disagreement{"root",
                     with(sum(4),
                          [](auto& c) {
                            c.kind = CollectiveKind::broadcast;
                            c.peer = 0;
                          }),
                     with(sum(4),
                          [](auto& c) {
                            c.kind = CollectiveKind::broadcast;
                            c.peer = 2;
                          }),
                     "root 0", "root 2"}),
    [](const auto& info) { return info.param.name; });

TEST_P(Disagreements, are_errors_on_all_members_that_show_both_sides) {
  const Disagreement& d = GetParam();
  run_ranks(Ranks::processes, 3, with_timeout(20'000), [&](World& world) {
    Communicator* all = make_group(world, first_ranks(3), "tp");
    EXPECT_TRUE(all->run(barrier("all are set up")).ok());
    const Status status = all->run(world.rank() == 2 ? d.second : d.first);
    EXPECT_EQ(status.code, StatusCode::disagreement);
    EXPECT_THAT(status.message, AllOf(HasSubstr(d.first_text), HasSubstr(d.second_text), HasSubstr("rank 2"),
                                      HasSubstr("collective 1"), HasSubstr("'tp'")));
    EXPECT_EQ(all->run(barrier("after")).message, status.message) << "the first error stays";
  });
}

TEST(Faults, a_receiver_that_expects_another_size_is_a_disagreement) {
  run_ranks(Ranks::threads, 2, with_timeout(20'000), [](World& world) {
    Communicator* all = make_group(world, {0, 1}, "tp");
    float data[8] = {};
    CollectiveCall call{.kind = CollectiveKind::send, .peer = 1, .count = 8, .input = data, .label = "s"};
    if (world.rank() == 1)
      call = {.kind = CollectiveKind::recv, .peer = 0, .count = 7, .output = data, .label = "r"};
    const Status status = all->run(call);
    EXPECT_EQ(status.code, StatusCode::disagreement) << status.message;
    EXPECT_THAT(status.message, AllOf(HasSubstr("f32 x 8"), HasSubstr("f32 x 7")));
  });
}

TEST(Faults, different_fingerprints_name_the_ranks_and_show_both_texts) {
  run_ranks(Ranks::processes, 3, with_timeout(20'000), [](World& world) {
    Communicator* all = make_group(world, first_ranks(3), "tp");
    EXPECT_TRUE(all->compare_fingerprint(1, "same").ok());
    EXPECT_TRUE(all->compare_fingerprint(2, "same again").ok());
    const bool odd = world.rank() == 1;
    const Status status =
        all->compare_fingerprint(odd ? 0xabc : 0xdef, odd ? "all_reduce f32 x 8" : "all_reduce f32 x 16");
    EXPECT_EQ(status.code, StatusCode::disagreement);
    EXPECT_THAT(status.message, AllOf(HasSubstr("ranks 0 2 "), HasSubstr("ranks 1 "), HasSubstr("f32 x 8"),
                                      HasSubstr("f32 x 16")));
  });
}

TEST(Faults, abort_wakes_everybody_with_its_reason) {
  run_ranks(Ranks::threads, 4, with_timeout(20'000), [](World& world) {
    Communicator* all = make_group(world, first_ranks(4), "tp");
    EXPECT_TRUE(all->run(barrier("all are set up")).ok());
    if (world.rank() == 3) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      all->abort("the user pressed a key");
    }
    const Status status = all->run(barrier("b"));
    EXPECT_EQ(status.code, StatusCode::aborted);
    EXPECT_THAT(status.message, AllOf(HasSubstr("rank 3"), HasSubstr("the user pressed a key")));
  });
}

TEST(Faults, a_segment_larger_than_memory_is_an_error) {
  const Status status =
      launch_threads(2, {.world = {.segment_bytes = size_t{1} << 46}}, [](World&) { return 0; });
  EXPECT_EQ(status.code, StatusCode::out_of_memory);
  EXPECT_THAT(status.message, HasSubstr("memory"));
}

TEST(Faults, a_group_that_finds_no_memory_is_an_error) {
  run_ranks(Ranks::threads, 2, {.world = {.staging_bytes = size_t{1} << 46}}, [](World& world) {
    Communicator* group = nullptr;
    EXPECT_EQ(world.group(std::vector<int>{0, 1}, "tp", &group).code, StatusCode::out_of_memory);
    EXPECT_EQ(group, nullptr);
  });
}

// No part of a World lies in /dev/shm, so a full one does no harm.
TEST(Faults, a_full_dev_shm_harms_nobody) {
  constexpr int kNotPermitted = 77;
  const pid_t child = fork();
  if (child == 0) {
    // A /dev/shm of its own, of one page.
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 || mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=4k") != 0) {
      _exit(kNotPermitted);
    }
    std::ofstream("/dev/shm/full") << std::string(4096, 'x');
    if ((std::ofstream("/dev/shm/more") << std::string(4096, 'x') << std::flush)) _exit(2);
    const Status status = launch_processes(3, {.world = {.segment_bytes = 1 << 20}}, [](World& world) {
      Communicator* all = make_group(world, first_ranks(3), "tp");
      auto* mine = reinterpret_cast<float*>(world.segment());
      for (int i = 0; i < 1000; ++i) mine[i] = static_cast<float>(world.rank() + i);
      const Status summed = all->run({.kind = CollectiveKind::all_reduce,
                                      .count = 1000,
                                      .input = mine,
                                      .output = mine + 1000,
                                      .label = "sum"});
      return summed.ok() && mine[1999] == 3 * 999 + 3 ? 0 : 1;
    });
    _exit(status.ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNotPermitted) GTEST_SKIP() << "no namespaces for ordinary users here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace braid::rt::testing
