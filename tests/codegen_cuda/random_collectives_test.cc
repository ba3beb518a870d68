// Random programs of 200 collectives: compiled for the emulated device; and run on the emulated NCCL without
// compiling.
#include "tests/support/random_collectives.h"

#include "driver/compile.h"
#include "ir/interpreter.h"
#include "tests/codegen_cuda/nccl_world.h"
#include "tests/codegen_cuda/run_case.h"
#include "tests/support/engine_run.h"
#include "tests/support/random.h"

namespace braid::test {
namespace {

class RandomCollectiveCases : public CudaCase {};

TEST_F(RandomCollectiveCases, CompiledProgramsFindTheInterpretersBits) {
  for (std::uint64_t seed = 1; seed <= kCollectiveCases; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    emulated::options().max_delay = std::chrono::microseconds(seed % 2 == 0 ? 100 : 0);
    emulated::options().seed = seed;
    const RandomCollectives program = random_collective_case(seed);
    RunOptions options;
    options.steps = 2;
    options.all_inputs = program.inputs;
    const CaseResult result = run_case("random_collectives_" + std::to_string(seed), {}, options);
    ASSERT_EQ(result.status, BRAID_OK) << result.message;
    const auto want = ir::run(program.schedule, program.inputs).outputs;
    EXPECT_EQ(difference(program.schedule.graph, result.outputs, want), "") << program.text;
    // Reading what only members of a group have got is masked afterwards, as the device cannot know.
    std::vector<std::string> wrong = found();
    std::erase_if(wrong, [](const std::string& f) { return f.rfind("uninitialized read", 0) == 0; });
    EXPECT_THAT(wrong, ::testing::IsEmpty());
  }
}

// In several tests, so that ctest runs them side by side.
constexpr int kShards = 2;
class RandomCollectivesOnNccl : public CudaCase, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Shards, RandomCollectivesOnNccl, ::testing::Range(0, kShards));

TEST_P(RandomCollectivesOnNccl, FindTheInterpretersBits) {
  const auto count = static_cast<std::uint64_t>(random_cases(100));
  for (std::uint64_t k = static_cast<std::uint64_t>(GetParam()); k < count; k += kShards) {
    const std::uint64_t seed = first_seed(2000) + k;
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomCollectives program = random_collectives(seed, {.nccl = true});
    ir::InterpreterOptions order;
    order.order_seed = seed;
    const auto want = ir::run(program.schedule, program.inputs, order).outputs;
    ir::Schedule schedule = program.schedule;
    CompileOptions compile;
    compile.target = "cuda";
    if (seed % 3 != 0) compile.passes = "plan_memory{in_place_collective_bytes=0}";
    optimise(schedule, compile);
    EngineRun options;
    options.delays = seed;
    std::vector<std::vector<ir::Tensor>> got(program.inputs.size());
    const std::string error = run_on_nccl(
        schedule.graph, static_cast<std::size_t>(schedule.plan->comm_bytes), [&](rt::World& world) {
          const auto r = static_cast<std::size_t>(world.rank());
          got[r] = run_on_engine(schedule, program.inputs[r], world, options);
        });
    ASSERT_EQ(error, "") << program.text;
    ASSERT_EQ(difference(schedule.graph, got, want), "") << program.text;
    ASSERT_THAT(found(), ::testing::IsEmpty());
  }
}

}  // namespace
}  // namespace braid::test
