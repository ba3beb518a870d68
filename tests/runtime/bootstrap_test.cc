#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/runtime/comm_cases.h"

namespace braid::rt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const char* const kVariables[] = {"RANK",
                                  "WORLD_SIZE",
                                  "LOCAL_RANK",
                                  "LOCAL_WORLD_SIZE",
                                  "MASTER_ADDR",
                                  "MASTER_PORT",
                                  "OMPI_COMM_WORLD_RANK",
                                  "OMPI_COMM_WORLD_SIZE",
                                  "OMPI_COMM_WORLD_LOCAL_RANK",
                                  "OMPI_COMM_WORLD_LOCAL_SIZE",
                                  "SLURM_PROCID",
                                  "SLURM_STEP_NUM_TASKS",
                                  "SLURM_LOCALID",
                                  "SLURM_STEP_TASKS_PER_NODE"};

class Environment : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kVariables) unsetenv(name);
  }
  void TearDown() override { SetUp(); }
};

TEST_F(Environment, without_a_launcher_there_is_one_rank) {
  RankEnvironment found;
  ASSERT_TRUE(find_rank_environment(&found).ok());
  EXPECT_EQ(found.size, 1);
  EXPECT_EQ(found.launcher, "");
}

TEST_F(Environment, torchrun_is_read) {
  setenv("RANK", "3", 1);
  setenv("WORLD_SIZE", "8", 1);
  setenv("LOCAL_RANK", "1", 1);
  setenv("LOCAL_WORLD_SIZE", "2", 1);
  setenv("MASTER_ADDR", "localhost", 1);
  setenv("MASTER_PORT", "29500", 1);
  RankEnvironment found;
  ASSERT_TRUE(find_rank_environment(&found).ok());
  EXPECT_EQ(found.rank, 3);
  EXPECT_EQ(found.size, 8);
  EXPECT_EQ(found.local_rank, 1);
  EXPECT_EQ(found.local_size, 2);
  EXPECT_THAT(found.run_id, AllOf(HasSubstr("localhost"), HasSubstr("29500")));
  std::unique_ptr<World> world;
  EXPECT_THAT(join_world_from_environment({}, &world).message, HasSubstr("one machine"));
}

TEST_F(Environment, slurm_and_open_mpi_are_read) {
  setenv("SLURM_PROCID", "1", 1);
  setenv("SLURM_STEP_NUM_TASKS", "4", 1);
  setenv("SLURM_STEP_TASKS_PER_NODE", "2(x2)", 1);
  RankEnvironment found;
  ASSERT_TRUE(find_rank_environment(&found).ok());
  EXPECT_EQ(found.launcher, "Slurm");
  EXPECT_EQ(found.local_size, 2);
  setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  ASSERT_TRUE(find_rank_environment(&found).ok());
  EXPECT_EQ(found.launcher, "Open MPI");
}

TEST_F(Environment, nonsense_is_refused) {
  setenv("RANK", "2", 1);
  setenv("WORLD_SIZE", "2", 1);
  RankEnvironment found;
  EXPECT_THAT(find_rank_environment(&found).message, AllOf(HasSubstr("RANK"), HasSubstr("WORLD_SIZE=2")));
  setenv("RANK", "one", 1);
  EXPECT_THAT(find_rank_environment(&found).message, HasSubstr("not a number"));
}

// Independent processes that only share environment variables.
std::vector<int> run_independent(int processes, const std::function<int(int)>& body) {
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      const int code = body(i);
      std::fflush(nullptr);
      _exit(::testing::Test::HasFailure() ? 99 : code);
    }
    children.push_back(pid);
  }
  std::vector<int> codes;
  for (const pid_t child : children) {
    int state = 0;
    waitpid(child, &state, 0);
    codes.push_back(WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state));
  }
  return codes;
}

void set_torchrun(int rank, int size) {
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(size).c_str(), 1);
  setenv("MASTER_ADDR", "test", 1);
  setenv("MASTER_PORT", std::to_string(getppid()).c_str(), 1);
}

TEST_F(Environment, independent_processes_meet_and_compute_again_and_again) {
  for (int repeat = 0; repeat < 3; ++repeat) {
    const std::vector<int> codes = run_independent(3, [](int rank) {
      set_torchrun(rank, 3);
      std::unique_ptr<World> world;
      const Status joined =
          join_world_from_environment({.segment_bytes = 1 << 20, .timeout_ms = 20'000}, &world);
      EXPECT_TRUE(joined.ok()) << joined.message;
      if (!joined.ok()) return 1;
      Communicator* all = make_group(*world, first_ranks(3), "all");
      run_case(*all, *world, {.count = 1000, .place = Place::inside});
      run_case(*all, *world, {.kind = CollectiveKind::all_gather, .count = 1000});
      return 0;
    });
    EXPECT_EQ(codes, std::vector<int>(3, 0));
  }
}

TEST_F(Environment, ranks_that_do_not_arrive_are_named_on_all_others) {
  const std::vector<int> codes = run_independent(2, [](int rank) {
    set_torchrun(rank, 4);
    std::unique_ptr<World> world;
    const Status joined = join_world_from_environment({.timeout_ms = 1500}, &world);
    EXPECT_EQ(joined.code, StatusCode::timed_out);
    EXPECT_THAT(joined.message, HasSubstr("have not arrived: 2, 3"));
    return 0;
  });
  EXPECT_EQ(codes, std::vector<int>(2, 0));
}

TEST_F(Environment, a_run_of_the_same_name_after_a_killed_one_starts_afresh) {
  for (int repeat = 0; repeat < 2; ++repeat) {
    const std::vector<int> codes = run_independent(2, [&](int rank) {
      set_torchrun(rank, 2);
      std::unique_ptr<World> world;
      const Status joined =
          join_world_from_environment({.segment_bytes = 4096, .timeout_ms = 20'000}, &world);
      EXPECT_TRUE(joined.ok()) << joined.message;
      if (!joined.ok()) return 1;
      EXPECT_EQ(*world->segment(), std::byte{0}) << "the memory of the dead run";
      Communicator* all = make_group(*world, first_ranks(2), "all");
      run_case(*all, *world, {.count = 100});
      std::memset(world->segment(), 0xff, 4096);
      if (repeat > 0) return 0;
      if (rank == 0) kill(getpid(), SIGKILL);
      EXPECT_EQ(all->run({.kind = CollectiveKind::barrier, .label = "b"}).code, StatusCode::peer_died);
      kill(getpid(), SIGKILL);
      return 1;
    });
    EXPECT_EQ(codes, std::vector<int>(2, repeat > 0 ? 0 : -SIGKILL));
  }
}

TEST_F(Environment, ranks_of_worlds_of_different_sizes_are_refused) {
  const std::vector<int> codes = run_independent(2, [](int rank) {
    set_torchrun(rank, rank == 0 ? 2 : 3);
    std::unique_ptr<World> world;
    const Status joined = join_world_from_environment({.timeout_ms = 5'000}, &world);
    EXPECT_EQ(joined.code, StatusCode::disagreement) << joined.message;
    EXPECT_THAT(joined.message, AllOf(HasSubstr("rank 1"), HasSubstr("2"), HasSubstr("3")));
    return 0;
  });
  EXPECT_EQ(codes, std::vector<int>(2, 0));
}

TEST_F(Environment, a_missing_rank_0_is_an_error) {
  const std::vector<int> codes = run_independent(1, [](int) {
    set_torchrun(1, 2);
    std::unique_ptr<World> world;
    EXPECT_THAT(join_world_from_environment({.timeout_ms = 100}, &world).message, HasSubstr("rank 0"));
    return 0;
  });
  EXPECT_EQ(codes, std::vector<int>{0});
}

TEST_F(Environment, ranks_that_want_different_segments_are_refused) {
  const std::vector<int> codes = run_independent(2, [](int rank) {
    set_torchrun(rank, 2);
    std::unique_ptr<World> world;
    const Status joined = join_world_from_environment(
        {.segment_bytes = rank == 0 ? 4096u : 8192u, .timeout_ms = 20'000}, &world);
    EXPECT_EQ(joined.code, StatusCode::disagreement);
    EXPECT_THAT(joined.message, AllOf(HasSubstr("4096"), HasSubstr("8192"), HasSubstr("rank 1")));
    return 0;
  });
  EXPECT_EQ(codes, std::vector<int>(2, 0));
}

TEST(Launch, names_the_rank_that_returned_non_zero_or_threw) {
  const RankFunction function = [](World& world) -> int {
    if (world.rank() == 1) return 7;
    if (world.rank() == 2) throw std::runtime_error("no such thing");
    return 0;
  };
  const Status threads = launch_threads(3, {}, function);
  EXPECT_EQ(threads.message, "rank 1 returned 7; rank 2 threw: no such thing");
  const Status processes = launch_processes(3, {}, function);
  EXPECT_THAT(processes.message,
              AllOf(HasSubstr("rank 1"), HasSubstr("rank 2"), HasSubstr("exited with code 1")));
}

}  // namespace
}  // namespace braid::rt::testing
