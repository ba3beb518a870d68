// braid as one rank of several that a launcher started: torchrun's variables on two processes of ours, and
// mpirun where it is.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <future>
#include <sstream>

#include "tests/cli/braid_process.h"
#include "tests/cli/paths.h"

namespace braid::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string launched_all_reduce() {
  return compiled("all_reduce", {model("collectives/all_reduce_dynamic/model.onnx"), "--ranks", "2", "--dim",
                                 "batch=1..4", "--dim", "sequence=1..16"});
}

std::vector<std::string> torchrun(int rank, int size, const std::string& run) {
  return {"RANK=" + std::to_string(rank), "WORLD_SIZE=" + std::to_string(size),
          "LOCAL_RANK=" + std::to_string(rank), "LOCAL_WORLD_SIZE=" + std::to_string(size),
          "TORCHELASTIC_RUN_ID=" + run};
}

const std::vector<std::string> kRandomInputs = {"--random", "7", "--dim", "batch=2", "--dim", "sequence=3"};

void expect_same_outputs(const std::string& got, const std::string& want, int ranks) {
  for (int r = 0; r < ranks; ++r) {
    const std::string file = "/rank" + std::to_string(r) + "/y.npy";
    EXPECT_EQ(read_text(got + file), read_text(want + file)) << "rank " << r;
    EXPECT_NE(read_text(got + file), "");
  }
}

TEST(Launched, TwoProcessesGiveTheResultsOfBraidRunAndEachWritesItsOwn) {
  const Folder folder;
  ASSERT_EQ(braid(Arguments{"run", launched_all_reduce(), "-o", folder / "want"} + kRandomInputs).exit_code,
            0);
  const std::string program = launched_all_reduce();
  std::array<std::future<ProcessResult>, 2> ranks;
  for (int r = 0; r < 2; ++r) {
    ranks[static_cast<std::size_t>(r)] = std::async(std::launch::async, [&, r] {
      return braid(Arguments{"run", program, "--repeat", "3", "-o", folder / "got"} + kRandomInputs, {},
                   torchrun(r, 2, folder.path().string()));
    });
  }
  const ProcessResult first = ranks[0].get(), second = ranks[1].get();
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(second.exit_code, 0) << second.err;
  // Output that is equal on all ranks is printed once.
  EXPECT_THAT(first.out, HasSubstr("y: f32[2, 3, 6]\nrank 0: median "));
  EXPECT_THAT(second.out, ::testing::StartsWith("rank 1: median "));
  expect_same_outputs(folder / "got", folder / "want", 2);
}

TEST(Launched, AnotherNumberOfRanksIsRefused) {
  const ProcessResult result =
      braid(Arguments{"run", launched_all_reduce()} + kRandomInputs, {}, torchrun(1, 3, "three"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("rank 1: error BR0011"));
  EXPECT_THAT(result.err, HasSubstr("torchrun started 3 ranks, but the program is for 2"));
}

TEST(Launched, VariablesThatContradictThemselvesAreRefused) {
  const ProcessResult result =
      braid(Arguments{"run", launched_all_reduce()} + kRandomInputs, {}, torchrun(5, 2, "odd"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("BR0011"));
  EXPECT_THAT(result.err, HasSubstr("RANK=5 is not a rank of WORLD_SIZE=2"));
}

TEST(Launched, WhatNeedsAllRanksIsRefused) {
  const Folder folder;
  for (const std::vector<std::string>& options : std::vector<std::vector<std::string>>{
           {"--ranks-as-threads"}, {"--trace", folder / "trace.json"}, {"--link", "5us,10GB/s"}}) {
    const ProcessResult result = braid(Arguments{"run", launched_all_reduce()} + kRandomInputs + options, {},
                                       torchrun(0, 2, "needs all"));
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("BR0003")) << options[0];
    EXPECT_THAT(result.err, HasSubstr("torchrun started only this one")) << options[0];
  }
}

TEST(Launched, EnvironmentVariablesThatMeanNothingAreRefused) {
  for (const char* variable :
       {"BRAID_TIMEOUT_MS=0", "BRAID_TIMEOUT_MS=abc", "BRAID_TIMEOUT_MS=-1", "BRAID_TIMEOUT_MS=5s",
        "BRAID_TIMEOUT_MS=99999999999999999999", "BRAID_ENGINE=bogus", "BRAID_COMM_WORKER=sometimes"}) {
    for (const char* command : {"run", "bench"}) {
      const ProcessResult result =
          braid(Arguments{command, launched_all_reduce()} + kRandomInputs, {}, {variable});
      EXPECT_EQ(result.exit_code, 2) << variable;
      EXPECT_THAT(result.err, HasSubstr("BR0012")) << variable;
      const std::string text = variable;
      const std::size_t equals = text.find('=');
      EXPECT_THAT(result.err, HasSubstr(text.substr(0, equals) + "='" + text.substr(equals + 1) + "'"));
    }
  }
  const ProcessResult alone =
      braid(Arguments{"run", launched_all_reduce()} + kRandomInputs, {}, {"BRAID_ENGINE=mpi"});
  EXPECT_EQ(alone.exit_code, 2) << "ranks that braid makes do not talk over MPI";
  EXPECT_THAT(alone.err, HasSubstr("BR0012"));
}

// Runs mpirun with these arguments; `engine`: shm or mpi. Each run has a folder of its own: two runs of Open
// MPI that begin and end at the same time collide over the one in /tmp, which one removes while the other
// makes it.
ProcessResult mpirun(const std::vector<std::string>& arguments, const std::string& engine) {
  const Folder session;
  std::vector<std::string> environment = {"BRAID_EXECUTABLE=" + paths::mpiexec(), "BRAID_ENGINE=" + engine,
                                          "BRAID_TIMEOUT_MS=20000",
                                          "OMPI_MCA_orte_tmpdir_base=" + session.path().string()};
  std::istringstream text(paths::mpi_environment());
  for (std::string variable; text >> variable;) environment.push_back(variable);
  return braid(arguments, {}, environment);
}
std::vector<std::string> on_ranks(int n) { return {"-n", std::to_string(n), paths::executable()}; }

class Mpirun : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (paths::mpiexec().empty()) GTEST_SKIP() << "built without MPI";
  }
};
INSTANTIATE_TEST_SUITE_P(Engines, Mpirun, ::testing::Values("shm", "mpi"));

TEST_P(Mpirun, GivesTheResultsOfBraidRun) {
  const Folder folder;
  ASSERT_EQ(braid(Arguments{"run", launched_all_reduce(), "-o", folder / "want"} + kRandomInputs).exit_code,
            0);
  const ProcessResult result =
      mpirun(on_ranks(2) + Arguments{"run", launched_all_reduce(), "-o", folder / "got"} + kRandomInputs,
             GetParam());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "y: f32[2, 3, 6]\n");
  expect_same_outputs(folder / "got", folder / "want", 2);
}

struct StoredCase {
  std::string name;
  int ranks;
  bool files_per_rank;
};

TEST_P(Mpirun, StoredResultsOfCompiledModelsComeOut) {
  for (const StoredCase& c : {StoredCase{"collectives/all_reduce_4_ranks", 4, false},
                              StoredCase{"collectives/collective_chain", 2, false},
                              StoredCase{"transformers/gpt2_prefill_tp4", 4, true},
                              StoredCase{"transformers/llama_decode_tp2", 2, true}}) {
    const std::string folder = model(c.name);
    std::vector<std::string> arguments = {
        folder + (c.files_per_rank ? "/model.rank{rank}.onnx" : "/model.onnx"), "--ranks",
        std::to_string(c.ranks)};
    if (c.files_per_rank) {
      for (const char* dim : {"batch=1..4", "sequence=1..16", "past_sequence=1..16"}) {
        const bool decode = c.name.find("decode") != std::string::npos;
        if (std::string(dim).starts_with(decode ? "sequence" : "past")) continue;
        arguments.insert(arguments.end(), {"--dim", dim});
      }
    }
    std::string name = c.name;
    std::replace(name.begin(), name.end(), '/', '_');
    const std::string program = compiled("launched_" + name, arguments);
    const ProcessResult result =
        mpirun(on_ranks(c.ranks) + Arguments{"test", folder, "--program", program}, GetParam());
    EXPECT_EQ(result.exit_code, 0) << c.name << result.out << result.err;
    for (int r = 0; r < c.ranks; ++r)
      EXPECT_THAT(result.out, HasSubstr("rank " + std::to_string(r) + ": 1 passed, 0 failed, 0 refused"));
  }
}

TEST_P(Mpirun, BenchPrintsOneLinePerRank) {
  const ProcessResult result =
      mpirun(on_ranks(2) + Arguments{"bench", launched_all_reduce(), "--repeat", "3"}, GetParam());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("rank 0: 3 steps, min "));
  EXPECT_THAT(result.out, HasSubstr("rank 1: 3 steps, min "));
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 2) << result.out;
}

// Rank 1 has been given a program of other bounds, and so of another plan. (On shared memory mpirun may end a
// rank before it has said so.)
TEST(MpirunOverMpi, AnotherPlanOnOneRankIsAnErrorOnAll) {
  if (paths::mpiexec().empty()) GTEST_SKIP() << "built without MPI";
  const std::string other =
      compiled("all_reduce_small", {model("collectives/all_reduce_dynamic/model.onnx"), "--ranks", "2",
                                    "--dim", "batch=1..4", "--dim", "sequence=1..4"});
  const std::vector<std::string> arguments = on_ranks(1) + Arguments{"run", launched_all_reduce()} +
                                             kRandomInputs + Arguments{":"} + on_ranks(1) +
                                             Arguments{"run", other} + kRandomInputs;
  const ProcessResult result = mpirun(arguments, "mpi");
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("rank 0: error BR07"));
  EXPECT_THAT(result.err, HasSubstr("rank 1: error BR07"));
  EXPECT_THAT(result.err, HasSubstr("differ"));
}

}  // namespace
}  // namespace braid::test
