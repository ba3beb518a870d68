// Captured steps: whatever the caller changes between runs, the results are those of steps without graphs.
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <random>

#include "runtime/emulated/graph_counts.h"
#include "tests/codegen_cuda/lost_peer_cases.h"
#include "tests/codegen_cuda/planted.h"
#include "tests/codegen_cuda/program_rank.h"
#include "tests/codegen_cuda/run_case.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Dims = std::map<std::string, std::int64_t>;

// Two captures and a replay of the second capture, also with collectives (runtime/cuda/captured_steps.h).
constexpr int kSteps = 4;

class Graphs : public CudaCase {
 protected:
  void SetUp() override {
    CudaCase::SetUp();
    setenv("BRAID_CUDA_GRAPHS", "1", 1);
  }
  void TearDown() override {
    unsetenv("BRAID_CUDA_GRAPHS");
    EXPECT_EQ(emulated::graph_counts().live, 0);
    CudaCase::TearDown();
  }

  static CaseResult run_without(const std::string& name, const Dims& dims, RunOptions options) {
    setenv("BRAID_CUDA_GRAPHS", "0", 1);
    CaseResult result = run_case(name, dims, options);
    setenv("BRAID_CUDA_GRAPHS", "1", 1);
    return result;
  }
  // The same bits with and without graphs, and that graphs were used.
  static void expect_equal_bits(const std::string& name, const Dims& dims = {}, RunOptions options = {}) {
    SCOPED_TRACE(name);
    options.integers = false;
    const CaseResult eager = run_without(name, dims, options);
    ASSERT_EQ(eager.status, BRAID_OK) << eager.message;
    const int before = emulated::graph_counts().launched;
    options.steps = kSteps;
    const CaseResult captured = run_case(name, dims, options);
    ASSERT_EQ(captured.status, BRAID_OK) << captured.message;
    EXPECT_GE(emulated::graph_counts().launched - before, static_cast<int>(captured.outputs.size()));
    for (std::size_t r = 0; r < eager.outputs.size(); ++r) {
      for (std::size_t k = 0; k < eager.outputs[r].size(); ++k)
        EXPECT_EQ(captured.outputs[r][k].bytes, eager.outputs[r][k].bytes)
            << "rank " << r << ", output " << k;
    }
  }
};

TEST_F(Graphs, RandomProgramsHaveTheSameBits) {
  for (std::uint64_t seed = 1; seed <= kRandomCases; ++seed) {
    emulated::options().max_delay = std::chrono::microseconds(seed % 3 == 0 ? 100 : 0);
    const RandomProgram program = random_case(seed);
    RunOptions options;
    options.all_inputs = program.inputs;
    options.own_stream = seed % 2 == 0;
    expect_equal_bits("random_" + std::to_string(seed), program.dims, options);
    ASSERT_THAT(found(), IsEmpty());
  }
}

TEST_F(Graphs, CollectivesOnAnyNumberOfRanksHaveTheSameBits) {
  for (const char* name : {"collectives_1_f32", "collectives_2_f32", "collectives_4_f32",
                           "collectives_2_bf16", "groups", "transfer", "overwrite"})
    expect_equal_bits(name);
  for (const char* name : {"layers_1", "layers_2", "layers_4"}) expect_equal_bits(name, {{"rows", 5}});
  for (const char* name : {"peers_3_any_size_one_shot", "peers_3_any_size_two_shot"})
    expect_equal_bits(name, {{"n", 4099}});
  expect_equal_bits("extern_around_a_collective", {{"n", 5}});
}

TEST_F(Graphs, OtherKindsOfKernelsHaveTheSameBits) {
  expect_equal_bits("extern_views", {{"n", 5}});
  expect_equal_bits("softmax_unfused");
  const RecurrenceCase recurrence = recurrence_cases().front();
  expect_equal_bits(recurrence.name, planned_recurrence(recurrence).dims);
}

TEST_F(Graphs, RacesWithinACapturedStepAreFound) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  RunOptions options;
  options.steps = kSteps;
  for (const char* name : {"overwrite_without_event_before", "overwrite_without_release"}) {
    run_case(name, {}, options);
    EXPECT_THAT(found(), Contains(AllOf(HasSubstr("race: "), HasSubstr("of a graph")))) << name;
  }
}

// y = 2 * (2 * x + 3 of both ranks) + 4, for x of [n, 8] with one value.
class Pointers : public Graphs {
 protected:
  static constexpr const char* kProgram = "extern_around_a_collective";
  static constexpr int kRuns = 20;
  // Which of `sets` sets of memory a rank uses in a run.
  using Choice = std::function<int(int rank, int run)>;

  static void play(int sets, const Choice& choice, const std::function<int64_t(int run)>& rows) {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    const std::vector<std::string> errors = run_ranks(2, [&](int rank) -> const char* {
      ProgramRank self(*program_of(kProgram), rank, id, {});
      std::vector<float*> inputs, outputs;
      for (int k = 0; k < sets; ++k) {
        inputs.push_back(self.floats(std::vector<float>(48, static_cast<float>(10 * rank + k))));
        outputs.push_back(self.floats(std::vector<float>(48)));
      }
      for (int run = 0; run < kRuns && self.ok(); ++run) {
        const auto mine = static_cast<size_t>(choice(rank, run)),
                   peers = static_cast<size_t>(choice(1 - rank, run));
        self.prepare({rows(run)});
        if (self.run({inputs[mine]}, {outputs[mine]}) != BRAID_OK) break;
        const float sum = 10.0f + static_cast<float>(mine + peers);
        const std::vector<float> got = self.read(outputs[mine], static_cast<size_t>(8 * rows(run)));
        EXPECT_THAT(got, Each(2 * (2 * sum + 6) + 4)) << "rank " << rank << ", run " << run;
      }
      EXPECT_EQ(self.message, "");
      EXPECT_EQ(self.error, "");
      return nullptr;
    });
    EXPECT_THAT(errors, Each(IsEmpty()));
    EXPECT_THAT(found(), IsEmpty());
  }
};

TEST_F(Pointers, MayRecurOnOneRankAndNotOnAnother) {
  const auto rows = [](int) -> int64_t { return 5; };
  play(
      1, [](int, int) { return 0; }, rows);
  play(
      2, [](int, int run) { return run % 2; }, rows);
  play(
      kRuns, [](int rank, int run) { return rank == 0 ? 0 : run; }, rows);
  play(
      kRuns, [](int rank, int run) { return rank == 0 ? run % 2 : run; }, rows);
  play(
      2, [](int, int run) { return run < 10 ? 0 : 1; }, rows);
}

TEST_F(Pointers, AndDimsMayChangeAtRandom) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    emulated::options().max_delay = std::chrono::microseconds(seed % 2 == 0 ? 200 : 0);
    emulated::options().seed = seed;
    std::mt19937_64 random(seed);
    std::vector<int> choices(2 * kRuns), sizes(kRuns);
    for (int& each : choices) each = static_cast<int>(random() % 3);
    for (int& each : sizes) each = static_cast<int>(random() % 2);
    SCOPED_TRACE("seed " + std::to_string(seed));
    play(
        3, [&](int rank, int run) { return choices[static_cast<size_t>(2 * run + rank)]; },
        [&](int run) -> int64_t { return 2 + sizes[static_cast<size_t>(run)]; });
  }
}

TEST_F(Pointers, DoNotDecideWhatIsCaptured) {
  const auto rows = [](int) -> int64_t { return 5; };
  // Per rank the collective, and the step in the runs 3, 4, 5, 8, 9, 16 and 17. Each run but the first
  // launches one graph: the step's, or the collective's.
  for (const int sets : {1, kRuns}) {
    const emulated::GraphCounts before = emulated::graph_counts();
    play(
        sets, [&](int, int run) { return run % sets; }, rows);
    const emulated::GraphCounts after = emulated::graph_counts();
    EXPECT_EQ(after.instantiated - before.instantiated, 2 * 8);
    EXPECT_EQ(after.updated, before.updated);
    EXPECT_EQ(after.launched - before.launched, 2 * (kRuns - 1));
  }
}

TEST_F(Pointers, ThatRecurAreReplayedAndOthersAreUpdated) {
  const auto counts_of = [](size_t sets) {
    const emulated::GraphCounts before = emulated::graph_counts();
    ncclUniqueId id = {};
    ProgramRank self(*program_of("negated"), 0, id, {});
    self.prepare({8});
    std::vector<float*> inputs, outputs;
    for (size_t k = 0; k < sets; ++k) {
      inputs.push_back(self.floats(std::vector<float>(8, static_cast<float>(k))));
      outputs.push_back(self.floats(std::vector<float>(8)));
    }
    for (size_t run = 0; run < kRuns; ++run) {
      EXPECT_EQ(self.run({inputs[run % sets]}, {outputs[run % sets]}), BRAID_OK) << self.message;
      EXPECT_THAT(self.read(outputs[run % sets], 8), Each(-static_cast<float>(run % sets)));
    }
    const emulated::GraphCounts after = emulated::graph_counts();
    return std::vector{after.instantiated - before.instantiated, after.updated - before.updated,
                       after.launched - before.launched};
  };
  // Captured in the runs 2, 3, 4, 5, 8, 9, 16 and 17; four steps are kept.
  EXPECT_THAT(counts_of(1), ElementsAre(1, 7, kRuns - 1));
  EXPECT_THAT(counts_of(2), ElementsAre(2, 6, kRuns - 1));
  EXPECT_THAT(counts_of(kRuns), ElementsAre(4, 4, 8));
}

TEST_F(Pointers, OfMemoryThatIsNoMoreAreNamed) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  ncclUniqueId id = {};
  ProgramRank self(*program_of("extern_views"), 0, id, {});
  self.prepare({5});
  float* const v = self.floats(std::vector<float>(4));
  float *const y = self.floats(std::vector<float>(20)), *const s = self.floats(std::vector<float>(20));
  void* gone = nullptr;
  ASSERT_EQ(cudaMalloc(&gone, 80), cudaSuccess);
  ASSERT_EQ(cudaMemset(gone, 0, 80), cudaSuccess);
  for (int run = 0; run < 3; ++run) ASSERT_EQ(self.run({gone, v}, {y, s}), BRAID_OK);
  ASSERT_EQ(self.synchronize(-1), BRAID_OK);
  ASSERT_EQ(cudaFree(gone), cudaSuccess);
  const BraidStatus run = self.run({gone, v}, {y, s});  // the device may have failed before it returns
  EXPECT_EQ(run == BRAID_OK ? self.synchronize(-1) : run, BRAID_LIBRARY_ERROR);
  EXPECT_THAT(found(), Contains(AllOf(HasSubstr("illegal access: "), HasSubstr("of a graph"),
                                      HasSubstr("in freed memory"))));
  emulated::reset_devices();
}

TEST_F(Graphs, OfTheDimsUsedLeastRecentlyAreDropped) {
  ncclUniqueId id = {};
  ProgramRank self(*program_of("negated"), 0, id, {});
  const int before = emulated::graph_counts().live;
  float* const x = self.floats(std::vector<float>(64));
  float* const y = self.floats(std::vector<float>(64));
  for (int64_t n = 1; n <= 40; ++n) {
    self.prepare({n});
    for (int run = 0; run < 2; ++run) ASSERT_EQ(self.run({x}, {y}), BRAID_OK) << self.message;
  }
  ASSERT_EQ(self.synchronize(-1), BRAID_OK);
  EXPECT_EQ(emulated::graph_counts().live - before, 32);
  const emulated::GraphCounts latest = emulated::graph_counts();
  self.prepare({39});
  ASSERT_EQ(self.run({x}, {y}), BRAID_OK);
  EXPECT_EQ(emulated::graph_counts().launched - latest.launched, 1);
  self.prepare({1});
  ASSERT_EQ(self.run({x}, {y}), BRAID_OK);
  EXPECT_EQ(emulated::graph_counts().launched - latest.launched, 1);
  EXPECT_EQ(self.error, "");
}

TEST_F(Graphs, WithoutMemoryForThemStepsAreEnqueued) {
  ncclUniqueId id = {};
  ProgramRank self(*program_of("negated"), 0, id, {});
  float* const x = self.floats(std::vector<float>(64, 3));
  float* const y = self.floats(std::vector<float>(64));
  self.prepare({64});
  size_t free = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  emulated::options().device_bytes = total - free;
  const int before = emulated::graph_counts().instantiated;
  for (int run = 0; run < 6; ++run) ASSERT_EQ(self.run({x}, {y}), BRAID_OK) << self.message;
  ASSERT_EQ(self.synchronize(-1), BRAID_OK);
  EXPECT_THAT(self.read(y, 64), Each(-3.0f));
  EXPECT_EQ(emulated::graph_counts().instantiated, before);
}

// A kernel that refuses to be captured on one rank: there the kernels are enqueued beside the collectives'
// graphs, and the other rank's come out of a graph.
TEST_F(Graphs, AKernelThatRefusesToBeCapturedIsEnqueued) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::atomic<int> refused = 0;
  moment = [&](void* stream) -> const char* {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess || device != 1) return nullptr;
    if (cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &status) != cudaSuccess) return "no stream";
    if (status == cudaStreamCaptureStatusNone) return nullptr;
    ++refused;
    return "not in a graph";
  };
  const std::vector<std::string> errors = run_ranks(2, [&](int rank) -> const char* {
    ProgramRank self(*program_of("lost_all_reduce_2"), rank, id, {});
    self.prepare({});
    float *const x = self.floats(std::vector<float>(8, 1)), *const y = self.floats(std::vector<float>(8));
    for (int run = 0; run < 6; ++run) {
      EXPECT_EQ(self.run({x}, {y}), BRAID_OK) << self.message;
      EXPECT_THAT(self.read(y, 8), Each(4.0f)) << "run " << run;
    }
    return self.ok() ? nullptr : "failed";
  });
  moment = nullptr;
  EXPECT_THAT(errors, Each(IsEmpty()));
  EXPECT_THAT(found(), IsEmpty());
  EXPECT_EQ(refused, 3);  // in the runs 3 to 5
}

TEST_F(Graphs, ALaunchThatDoesNotFollowOrPrecedeItsCallersStreamIsFound) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  RunOptions options;
  options.steps = kSteps;
  for (const auto& [event, text] :
       {std::pair{"caller_", "does not follow what was on the caller's stream"},
        std::pair{"join_", "does not wait for the last work that a step puts on another"}}) {
    planted_call = {"cudaStreamWaitEvent", event};
    run_case("layers_1", {{"rows", 4}}, options);
    planted_call = {};
    EXPECT_THAT(found(),
                Contains(AllOf(HasSubstr("step scope: "), HasSubstr("cudaGraphLaunch"), HasSubstr(text))));
  }
}

TEST_F(Graphs, ACallerWhoCapturesHasTheStepInHisGraph) {
  ncclUniqueId id = {};
  ProgramRank self(*program_of("negated"), 0, id, {});
  float* const x = self.floats(std::vector<float>(64, 3));
  float* const y = self.floats(std::vector<float>(64));
  self.prepare({64});
  ASSERT_EQ(self.run({x}, {y}), BRAID_OK);
  ASSERT_EQ(self.synchronize(-1), BRAID_OK);
  const int before = emulated::graph_counts().instantiated;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(self.stream(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
  for (int run = 0; run < 3; ++run) {
    float* const from = run % 2 == 0 ? x : y;
    ASSERT_EQ(self.run({from}, {from == x ? y : x}), BRAID_OK) << self.message;
  }
  ASSERT_EQ(cudaStreamEndCapture(self.stream(), &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  EXPECT_EQ(emulated::graph_counts().instantiated - before, 1);
  for (int run = 0; run < 2; ++run) ASSERT_EQ(cudaGraphLaunch(executable, self.stream()), cudaSuccess);
  EXPECT_THAT(self.read(y, 64), Each(-3.0f));
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(Graphs, TwoInstancesHaveTheirOwn) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    emulated::options().max_delay = std::chrono::microseconds(200);
    emulated::options().seed = seed;
    ncclUniqueId id = {};
    ProgramRank one(*program_of("negated"), 0, id, {}), other(*program_of("negated"), 0, id, {});
    float* const x = one.floats(std::vector<float>(64, 1));
    float* const y = one.floats(std::vector<float>(64));
    float* const u = other.floats(std::vector<float>(64, 2));
    float* const v = other.floats(std::vector<float>(64));
    one.prepare({64});
    other.prepare({33});
    for (int run = 0; run < 6; ++run) {
      ASSERT_EQ(one.run({x}, {y}), BRAID_OK);
      ASSERT_EQ(other.run({u}, {v}), BRAID_OK);
    }
    EXPECT_THAT(one.read(y, 64), Each(-1.0f));
    EXPECT_THAT(other.read(v, 33), Each(-2.0f));
    EXPECT_THAT(found(), IsEmpty());
  }
}

TEST_F(Graphs, TheVariableIsANumber) {
  setenv("BRAID_CUDA_GRAPHS", "yes", 1);
  ncclUniqueId id = {};
  EXPECT_EQ(ProgramRank(*program_of("negated"), 0, id, {}).error,
            "create: BRAID_CUDA_GRAPHS='yes' is not a number from 0 to 1");
}

}  // namespace
}  // namespace braid::test
