// A CUDA program's rank as one process of several that a launcher started: torchrun's variables on processes
// of ours, and mpirun where it is installed. On the emulated device.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/socket.h>

#include <csignal>
#include <future>
#include <random>
#include <sstream>

#include "runtime/comm/control_link.h"
#include "runtime/comm/futex.h"
#include "tests/cli/cuda_programs.h"
#include "tests/cli/paths.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

const Arguments kInputs = {"--random", "7",          "--dim",    "batch=2",
                           "--dim",    "sequence=3", "--device", "emulated"};

// A port of this machine that was free a moment ago.
int free_port() {
  rt::Socket socket;
  EXPECT_TRUE(rt::control::listen_at({"127.0.0.1", 0}, &socket).ok());
  return rt::control::port_of(socket);
}

Arguments torchrun(int rank, int port) {
  return {fmt::format("RANK={}", rank),
          "WORLD_SIZE=2",
          fmt::format("LOCAL_RANK={}", rank),
          "LOCAL_WORLD_SIZE=2",
          "MASTER_ADDR=127.0.0.1",
          fmt::format("MASTER_PORT={}", port),
          fmt::format("TORCHELASTIC_RUN_ID={}", port)};
}

// Runs both ranks at once. The library is built before, so no time-out covers its build.
struct Ranks {
  ProcessResult first, second;
};
Ranks run_both(const std::function<ProcessResult(int rank)>& rank) {
  std::future<ProcessResult> second = std::async(std::launch::async, rank, 1);
  ProcessResult first = rank(0);
  return {std::move(first), second.get()};
}

std::string built_program() {
  static const std::string program = [] {
    const ProcessResult run = braid(Arguments{"run", cuda_case_program()} + kInputs, {}, cuda_environment());
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return cuda_case_program();
  }();
  return program;
}

void expect_same_outputs(const Folder& folder) {
  ASSERT_EQ(braid(Arguments{"run", built_program(), "-o", folder / "want"} + kInputs, {}, cuda_environment())
                .exit_code,
            0);
  for (const char* file : {"/rank0/y.npy", "/rank1/y.npy"}) {
    EXPECT_EQ(read_text(folder / ("got" + std::string(file))),
              read_text(folder / ("want" + std::string(file))));
    EXPECT_NE(read_text(folder / ("got" + std::string(file))), "");
  }
}

// Meeting at rank 0's port, at another one than torchrun's own store has, and without a port.
TEST(LaunchedCuda, TwoProcessesGiveTheResultsOfBraidRun) {
  const int port = free_port(), taken = free_port();
  const Arguments kPlaces[] = {{},
                               {fmt::format("MASTER_PORT={}", taken), "TORCHELASTIC_USE_AGENT_STORE=True",
                                fmt::format("BRAID_MASTER_PORT={}", port)},
                               {"TORCHELASTIC_USE_AGENT_STORE=True"},
                               {"MASTER_ADDR=", "MASTER_PORT="},
                               {"BRAID_SECRET=open sesame"}};
  for (const Arguments& place : kPlaces) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(place, " ")));
    const Folder folder;
    const Ranks ranks = run_both([&](int rank) {
      return braid(Arguments{"run", built_program(), "--repeat", "3", "-o", folder / "got"} + kInputs, {},
                   torchrun(rank, port) + place);
    });
    EXPECT_EQ(ranks.first.exit_code, 0) << ranks.first.err;
    EXPECT_EQ(ranks.second.exit_code, 0) << ranks.second.err;
    // Output that is equal on all ranks is printed once.
    EXPECT_THAT(ranks.first.out, HasSubstr("y: f32[2, 3, 6]"));
    EXPECT_THAT(ranks.second.out, Not(HasSubstr("f32")));
    expect_same_outputs(folder);
  }
}

// A stopped rank stays: it is its launcher's.
TEST(LaunchedCuda, RankFaultsAreNamedByTheOther) {
  for (const char* kind : {"kill", "stop"}) {
    for (const int victim : {0, 1}) {
      SCOPED_TRACE(fmt::format("{} {}", kind, victim));
      const int port = free_port();
      std::promise<int> process;
      const auto rank = [&](int r) {
        return braid(Arguments{"run", built_program()} + kInputs, {},
                     torchrun(r, port) + Arguments{fmt::format("BRAID_TEST_NCCL_FAULT={}:{}:1", kind, victim),
                                                   "BRAID_TIMEOUT_MS=2000"},
                     [&](int id) {
                       if (r == victim) process.set_value(id);
                     });
      };
      std::future<ProcessResult> struck = std::async(std::launch::async, rank, victim);
      const ProcessResult other = rank(1 - victim);
      const int id = process.get_future().get();
      ::kill(id, SIGKILL);
      EXPECT_EQ(struck.get().exit_code, 128 + SIGKILL);
      EXPECT_EQ(other.exit_code, 4);
      EXPECT_THAT(other.err,
                  ContainsRegex(fmt::format(
                      "rank {}: error BR0726: [^\n]*rank {} \\(process {} on [^)]+\\) {}", 1 - victim, victim,
                      id, kind == std::string("kill") ? "has ended" : "has sent nothing for ")));
    }
  }
}

TEST(LaunchedCuda, AnotherProgramIsRefusedBeforeTheFirstCollectiveAndBothAreNamed) {
  const int port = free_port();
  const std::string programs[] = {built_program(), cuda_collectives(2)};
  const Ranks ranks = run_both([&](int rank) {
    return braid(Arguments{"run", programs[rank], "--random", "7", "--device", "emulated"}, {},
                 cuda_environment() + torchrun(rank, port) + Arguments{"BRAID_TIMEOUT_MS=60000"});
  });
  for (const ProcessResult* each : {&ranks.first, &ranks.second}) {
    EXPECT_EQ(each->exit_code, 4);
    EXPECT_THAT(each->err,
                AllOf(HasSubstr("BR0007"),
                      ContainsRegex("rank 1 \\(process [0-9]+ on [^)]+\\) runs program 'collectives'"),
                      ContainsRegex("rank 0 \\(process [0-9]+ on [^)]+\\) runs program 'model'"),
                      Not(HasSubstr("emulated device"))));
  }
}

TEST(LaunchedCuda, OtherSizesAreRefusedToo) {
  const int port = free_port();
  const Ranks ranks = run_both([&](int rank) {
    return braid({"run", built_program(), "--random", "7", "--device", "emulated", "--dim",
                  fmt::format("batch={}", rank + 1)},
                 {}, torchrun(rank, port));
  });
  for (const ProcessResult* each : {&ranks.first, &ranks.second})
    EXPECT_THAT(each->err, AllOf(HasSubstr("BR0007"), HasSubstr("batch=1"), HasSubstr("batch=2")));
}

TEST(LaunchedCuda, AnotherSecretIsRefusedAndNeverPrinted) {
  const int port = free_port();
  const Ranks ranks = run_both([&](int rank) {
    return braid(
        Arguments{"run", built_program()} + kInputs, {},
        torchrun(rank, port) + Arguments{rank == 0 ? "BRAID_SECRET=open sesame" : "BRAID_SECRET=guess",
                                         "BRAID_TIMEOUT_MS=2000"});
  });
  EXPECT_THAT(ranks.first.err,
              AllOf(HasSubstr("rank 0: error BR0007"), HasSubstr("have not arrived within 2000 ms: 1"),
                    HasSubstr("has not proved that it knows the secret")));
  EXPECT_THAT(ranks.second.err,
              AllOf(HasSubstr("rank 1: error BR0007"), HasSubstr("do not have the same secret")));
  EXPECT_THAT(ranks.first.err + ranks.second.err, AllOf(Not(HasSubstr("sesame")), Not(HasSubstr("guess"))));
}

TEST(LaunchedCuda, RanksMeetWhateverElseComesToThePort) {
  const int port = free_port();
  const std::string program = built_program();
  const auto rank = [&](int r) { return braid(Arguments{"run", program} + kInputs, {}, torchrun(r, port)); };
  std::future<ProcessResult> first = std::async(std::launch::async, rank, 0);
  std::mt19937_64 random(7);
  std::vector<rt::Socket> open;
  for (const int64_t until = rt::monotonic_ns() + 20'000'000'000;
       open.size() < 50 && rt::monotonic_ns() < until;) {
    std::string why;
    rt::Socket socket = rt::control::connect_to({"127.0.0.1", port}, until, &why);
    if (socket.fd() < 0) continue;
    const std::uint64_t bytes[] = {random(), random(), random()};
    if (random() % 2 == 0) (void)!::send(socket.fd(), bytes, sizeof bytes, MSG_NOSIGNAL);
    open.push_back(std::move(socket));
  }
  EXPECT_EQ(open.size(), 50);
  const ProcessResult second = rank(1);
  EXPECT_EQ(second.exit_code, 0) << second.err;
  const ProcessResult result = first.get();
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST(LaunchedCuda, APortInUseAndPortsThatAreNoneAreErrors) {
  rt::Socket holder;
  ASSERT_TRUE(rt::control::listen_at({"127.0.0.1", 0}, &holder).ok());
  const int port = rt::control::port_of(holder);
  const Ranks ranks = run_both([&](int rank) {
    return braid(Arguments{"run", built_program()} + kInputs, {},
                 torchrun(rank, port) + Arguments{"BRAID_TIMEOUT_MS=1000"});
  });
  EXPECT_THAT(ranks.first.err, AllOf(HasSubstr("rank 0: error BR0007"),
                                     HasSubstr(fmt::format("127.0.0.1:{}", port)), HasSubstr("in use")));
  EXPECT_THAT(ranks.second.err, AllOf(HasSubstr("rank 1: error BR0007"),
                                      HasSubstr("the process that listens there says nothing")));
  for (const char* nonsense :
       {"MASTER_PORT=0", "MASTER_PORT=65536", "MASTER_PORT=http", "BRAID_MASTER_PORT=-1"}) {
    const ProcessResult result =
        braid(Arguments{"run", built_program()} + kInputs, {}, torchrun(0, port) + Arguments{nonsense});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, AllOf(HasSubstr("is not a number from 1 to 65535"), HasSubstr("BR0012")))
        << nonsense;
  }
}

TEST(LaunchedCuda, MpirunsRanksMeetThroughEitherEngine) {
  if (paths::mpiexec().empty()) GTEST_SKIP() << "built without MPI";
  for (const char* engine : {"shm", "mpi"}) {
    const Folder folder;
    Arguments environment = {"BRAID_EXECUTABLE=" + paths::mpiexec(), std::string("BRAID_ENGINE=") + engine,
                             "BRAID_TIMEOUT_MS=20000"};
    std::istringstream text(paths::mpi_environment());
    for (std::string variable; text >> variable;) environment.push_back(variable);
    const ProcessResult result = braid(
        Arguments{"-n", "2", paths::executable(), "run", built_program(), "-o", folder / "got"} + kInputs, {},
        environment);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    expect_same_outputs(folder);
  }
}

}  // namespace
}  // namespace braid::test
