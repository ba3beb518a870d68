#include <gmock/gmock.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>

#include "tests/runtime/comm_cases.h"
#include "tests/runtime/independent_processes.h"

namespace braid::rt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const char* const kVariables[] = {"TORCHELASTIC_RUN_ID",
                                  "PMIX_NAMESPACE",
                                  "SLURM_STEP_ID",
                                  "RANK",
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
  for (const char* nonsense : {"one", "1(x2)", "1,1", " 1", "99999999999999999999", "-1"}) {
    setenv("RANK", nonsense, 1);
    EXPECT_THAT(find_rank_environment(&found).message, HasSubstr("not a number")) << nonsense;
  }
  setenv("RANK", "", 1);
  EXPECT_TRUE(find_rank_environment(&found).ok());
  EXPECT_EQ(found.launcher, "") << "an empty value counts as unset";
}

TEST_F(Environment, ranks_of_a_machine_are_some_of_all) {
  setenv("RANK", "1", 1);
  setenv("WORLD_SIZE", "4", 1);
  RankEnvironment found;
  const auto message = [&](const char* local_rank, const char* local_size) {
    setenv("LOCAL_RANK", local_rank, 1);
    setenv("LOCAL_WORLD_SIZE", local_size, 1);
    return find_rank_environment(&found).message;
  };
  EXPECT_EQ(message("0", "2"), "");
  EXPECT_EQ(message("3", ""), "");
  EXPECT_THAT(message("2", "2"), HasSubstr("LOCAL_RANK=2 is not a rank of LOCAL_WORLD_SIZE=2"));
  EXPECT_THAT(message("4", ""), HasSubstr("LOCAL_RANK=4 is not a rank of WORLD_SIZE=4"));
  EXPECT_THAT(message("0", "5"), HasSubstr("LOCAL_WORLD_SIZE=5 is no number of ranks among WORLD_SIZE=4"));
  EXPECT_THAT(message("0", "0"), HasSubstr("LOCAL_WORLD_SIZE=0"));
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

std::string run_id() {
  RankEnvironment found;
  EXPECT_TRUE(find_rank_environment(&found).ok());
  return found.run_id;
}

TEST_F(Environment, a_run_is_known_by_its_launchers_job_or_else_by_the_parent_process) {
  set_torchrun(0, 2);
  const std::string below_this = run_id();
  EXPECT_THAT(below_this, HasSubstr("children of process " + std::to_string(getppid())));
  const std::vector<int> codes = run_independent(1, [&](int) {
    setenv("MASTER_PORT", std::to_string(getpid()).c_str(), 1);  // of the parent, as above
    EXPECT_NE(run_id(), below_this) << "the children of another process are another run";
    return 0;
  });
  EXPECT_EQ(codes, std::vector<int>{0});
  for (const char* job : {"TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE", "SLURM_STEP_ID"}) {
    SetUp();
    if (job == std::string("PMIX_NAMESPACE")) {
      setenv("OMPI_COMM_WORLD_RANK", "0", 1);
      setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    } else if (job == std::string("SLURM_STEP_ID")) {
      setenv("SLURM_PROCID", "0", 1);
      setenv("SLURM_STEP_NUM_TASKS", "2", 1);
    } else {
      set_torchrun(0, 2);
    }
    setenv(job, "17", 1);
    EXPECT_THAT(run_id(), AllOf(HasSubstr("/17"), ::testing::Not(HasSubstr("children"))));
  }
}

// The same variables twice at once below two launchers: each run finds its own.
TEST_F(Environment, two_runs_with_the_same_variables_do_not_meet) {
  const std::vector<int> launchers = run_independent(2, [](int run) {
    const std::vector<int> codes = run_independent(2, [run](int rank) {
      set_torchrun(rank, 2);
      setenv("MASTER_PORT", "29500", 1);
      std::unique_ptr<World> world;
      const Status joined =
          join_world_from_environment({.segment_bytes = 4096, .timeout_ms = 20'000}, &world);
      EXPECT_TRUE(joined.ok()) << joined.message;
      if (!joined.ok()) return 1;
      Communicator* all = make_group(*world, {0, 1}, "all");
      const int mine = run;
      int both[2] = {-1, -1};
      EXPECT_TRUE(all->run({.kind = CollectiveKind::all_gather,
                            .dtype = DType::i32,
                            .count = 1,
                            .input = &mine,
                            .output = both})
                      .ok());
      EXPECT_EQ(both[1 - rank], run);
      return 0;
    });
    EXPECT_EQ(codes, std::vector<int>(2, 0));
    return 0;
  });
  EXPECT_EQ(launchers, std::vector<int>(2, 0));
}

// Worlds of three that are joined by ranks 0, 1 and 1, or by 0, 0 and 1.
TEST_F(Environment, a_rank_that_exists_twice_is_refused_on_all_sides) {
  for (const int twice : {0, 1}) {
    const std::vector<int> codes = run_independent(3, [&](int process) {
      set_torchrun(process < 2 ? process : twice, 3);
      std::unique_ptr<World> world;
      const Status joined = join_world_from_environment({.timeout_ms = 20'000}, &world);
      // A rank that comes when all is over finds no other.
      if (joined.code == StatusCode::timed_out) return 2;
      EXPECT_EQ(joined.code, StatusCode::disagreement) << joined.message;
      EXPECT_THAT(joined.message, AllOf(HasSubstr("rank " + std::to_string(twice) + " of run"),
                                        HasSubstr("exists twice: process ")));
      return 0;
    });
    if (twice == 1) {
      EXPECT_EQ(codes, std::vector<int>(3, 0));
    } else {  // rank 1 may come when both others have gone
      EXPECT_EQ(codes[0], 0);
      EXPECT_EQ(codes[2], 0);
    }
  }
}

constexpr uid_t kNobody = 65534;

// Another user listens where rank 0 would.
TEST_F(Environment, a_stranger_on_the_address_is_told_nothing_and_named) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  int ready[2], done[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(done), 0);
  const std::string name = rendezvous_name("stranger");
  const pid_t stranger = fork();
  if (stranger == 0) {
    const bool other_user = setgid(kNobody) == 0 && setuid(kNobody) == 0;
    const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    char good = other_user && bind(listener, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                listen(listener, 4) == 0;
    (void)!write(ready[1], &good, 1);
    (void)!read(done[0], &good, 1);
    // Counts the peers that connected and sent something.
    int heard = 0;
    for (int peer; (peer = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK)) >= 0; close(peer)) {
      char byte = 0;
      if (recv(peer, &byte, 1, 0) > 0) ++heard;
    }
    _exit(heard == 0 ? 0 : 1);
  }
  char good = 0;
  ASSERT_EQ(read(ready[0], &good, 1), 1);
  ASSERT_TRUE(good);
  const std::vector<int> codes = run_independent(2, [](int rank) {
    std::unique_ptr<World> world;
    const Status joined = join_world(rank, 2, "stranger", {.timeout_ms = 300}, &world);
    EXPECT_EQ(joined.code, StatusCode::timed_out);
    EXPECT_THAT(joined.message, AllOf(HasSubstr("rank 0 of run 'stranger'"), HasSubstr("of user 65534"),
                                      HasSubstr("was told nothing")));
    return 0;
  });
  EXPECT_EQ(codes, std::vector<int>(2, 0));
  ASSERT_EQ(write(done[1], "x", 1), 1);
  int state = 0;
  waitpid(stranger, &state, 0);
  EXPECT_EQ(state, 0) << "a rank has told the stranger something";
  for (const int fd : {ready[0], ready[1], done[0], done[1]}) close(fd);
}

// Processes of another user that connect to rank 0 do no harm.
TEST_F(Environment, strangers_who_connect_are_not_counted) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  const std::vector<int> codes = run_independent(3, [](int process) {
    if (process == 2) {
      if (setgid(kNobody) != 0 || setuid(kNobody) != 0) return 1;
      // The name of root's run, as an attacker would guess it.
      std::string name = rendezvous_name("door");
      name.replace(name.find("-65534-"), 7, "-0-");
      sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
      std::memcpy(address.sun_path + 1, name.data(), name.size());
      const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
      for (int k = 0; k < 200; ++k) {
        const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        if (connect(fd, reinterpret_cast<sockaddr*>(&address), length) == 0)
          (void)!send(fd, "hello", 5, MSG_NOSIGNAL);
        usleep(1000);
        close(fd);
      }
      return 0;
    }
    if (process == 1) usleep(100'000);
    std::unique_ptr<World> world;
    const Status joined =
        join_world(process, 2, "door", {.segment_bytes = 4096, .timeout_ms = 20'000}, &world);
    EXPECT_TRUE(joined.ok()) << joined.message;
    if (joined.ok()) run_case(*make_group(*world, {0, 1}, "all"), *world, {.count = 100});
    return 0;
  });
  EXPECT_EQ(codes, std::vector<int>(3, 0));
}

// A process may join one World after the other; a quick rank comes to the next rendezvous while the first is
// still open.
TEST_F(Environment, ranks_join_one_world_after_the_other) {
  const std::vector<int> codes = run_independent(3, [](int rank) {
    for (int k = 0; k < 20; ++k) {
      std::unique_ptr<World> world;
      const Status joined =
          join_world(rank, 3, "again", {.segment_bytes = 4096, .timeout_ms = 20'000}, &world);
      EXPECT_TRUE(joined.ok()) << joined.message;
      if (!joined.ok()) return 1;
    }
    return 0;
  });
  EXPECT_EQ(codes, std::vector<int>(3, 0));
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
