// Random programs of 200 collectives: in the interpreter, on the shared-memory engine by threads and by processes
// (run, not compiled: hundreds), and compiled. BRAID_TEST_SEED and BRAID_RANDOM_SCALE as in tests/support/random.h.
#include "tests/support/random_collectives.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/interpreter.h"
#include "ir/verifier.h"
#include "passes/default_passes.h"
#include "passes/runner.h"
#include "tests/codegen/compiled.h"
#include "tests/support/engine_run.h"
#include "tests/support/random.h"
#include "tests/support/rank_results.h"

namespace braid::test {
namespace {

// As written, in another legal order, fused and scheduled.
void optimise(ir::Schedule& schedule, std::uint64_t seed) {
  if (seed % 3 == 0)
    passes::run_passes(schedule, passes::default_passes());
  else
    passes::run_passes(schedule, passes::parse_pass_list("plan_memory"));
}

std::string run_and_compare(const RandomCollectives& program, const ir::Schedule& schedule, RanksAs ranks,
                            const EngineRun& options,
                            const std::vector<std::vector<ir::Tensor>>& want) {
  std::string error;
  rt::LaunchOptions launch;
  launch.world = world_for(schedule);
  const auto got = run_on_ranks(
      ranks, launch, want,
      [&](rt::World& world) {
        return run_on_engine(schedule, program.inputs[static_cast<std::size_t>(world.rank())], world, options);
      },
      &error);
  return error.empty() ? difference(schedule.graph, got, want) : error;
}

// In several tests, so that ctest runs them side by side.
constexpr int kShards = 4;
class RandomCollectivesOnTheEngine : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Shards, RandomCollectivesOnTheEngine, ::testing::Range(0, kShards));

TEST_P(RandomCollectivesOnTheEngine, FindTheInterpretersBits) {
  const std::uint64_t first = first_seed(1);
  const auto count = static_cast<std::uint64_t>(random_cases(200));
  for (std::uint64_t k = static_cast<std::uint64_t>(GetParam()); k < count; k += kShards) {
    const std::uint64_t seed = first + k;
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const RandomCollectives program = random_collectives(seed);
    const auto violations = ir::verify(program.schedule);
    ASSERT_TRUE(violations.empty()) << violations[0].node << ": " << violations[0].message << "\n" << program.text;
    ir::InterpreterOptions order;
    order.order_seed = seed;
    const auto want = ir::run(program.schedule, program.inputs, order).outputs;
    ir::Schedule schedule = program.schedule;
    optimise(schedule, seed);
    EngineRun options;
    options.delays = seed;
    options.steps = seed % 5 == 0 ? 2 : 1;
    const RanksAs ranks = seed % 2 == 0 ? RanksAs::threads : RanksAs::processes;
    ASSERT_EQ(run_and_compare(program, schedule, ranks, options, want), "") << program.text;
  }
}

}  // namespace
}  // namespace braid::test
