// Random programs of 200 collectives: in the interpreter, on the shared-memory engine by threads and by
// processes (run, not compiled: hundreds), and compiled. BRAID_TEST_SEED and BRAID_RANDOM_SCALE as in
// tests/support/random.h.
#include "tests/support/random_collectives.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "driver/compile.h"
#include "ir/interpreter.h"
#include "ir/verifier.h"
#include "tests/codegen/compiled.h"
#include "tests/support/engine_run.h"
#include "tests/support/random.h"
#include "tests/support/rank_results.h"

namespace braid::test {
namespace {

// As written, in another legal order, fused and scheduled.
void optimise(ir::Schedule& schedule, std::uint64_t seed) {
  CompileOptions options;
  if (seed % 3 != 0) options.passes = "plan_memory{in_place_collective_bytes=0}";
  braid::optimise(schedule, options);
}

std::string run_and_compare(const RandomCollectives& program, const ir::Schedule& schedule, RanksAs ranks,
                            const EngineRun& options, const std::vector<std::vector<ir::Tensor>>& want) {
  std::string error;
  rt::LaunchOptions launch;
  launch.world = world_for(schedule);
  const auto got = run_on_ranks(
      ranks, launch, want,
      [&](rt::World& world) {
        return run_on_engine(schedule, program.inputs[static_cast<std::size_t>(world.rank())], world,
                             options);
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
    ASSERT_TRUE(violations.empty()) << violations[0].node << ": " << violations[0].message << "\n"
                                    << program.text;
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

// ---- the same checks find what is wrong

// How many of so many programs are found out. `plant` changes the planned schedule or what one rank does.
int found_out(int programs, const std::function<void(ir::Schedule&, EngineRun&, std::uint64_t seed)>& plant,
              RanksAs ranks = RanksAs::threads) {
  int found = 0;
  for (int k = 0; k < programs; ++k) {
    const std::uint64_t seed = first_seed(500) + static_cast<std::uint64_t>(k);
    const RandomCollectives program = random_collectives(seed, {.collectives = 100, .ranks = 3});
    const auto want = ir::run(program.schedule, program.inputs).outputs;
    ir::Schedule schedule = program.schedule;
    optimise(schedule, 1);
    EngineRun options;
    options.delays = seed;
    options.faulty_rank = static_cast<int>(seed % 3);
    plant(schedule, options, seed);
    found += run_and_compare(program, schedule, ranks, options, want).empty() ? 0 : 1;
  }
  return found;
}

TEST(RandomCollectivesFaults, NothingPlantedNothingFound) {
  EXPECT_EQ(found_out(5, [](ir::Schedule&, EngineRun&, std::uint64_t) {}), 0);
}

TEST(RandomCollectivesFaults, AGroupInAnotherOrderIsFound) {
  EXPECT_EQ(found_out(5,
                      [](ir::Schedule& s, EngineRun&, std::uint64_t) {
                        std::swap(s.graph.groups[0].parts[0][0], s.graph.groups[0].parts[0][1]);
                      }),
            5);
}

TEST(RandomCollectivesFaults, OneCollectiveThatReadsOneElementFurtherIsFound) {
  // Not all can be: members that are not the root read nothing in a broadcast, and a maximum may hide it.
  EXPECT_GE(found_out(10,
                      [](ir::Schedule&, EngineRun& run, std::uint64_t seed) {
                        run.fault = PlantedFault::wrong_offset;
                        run.which = static_cast<int>(seed * 7 % 50);
                      }),
            3);
}

TEST(RandomCollectivesFaults, ResultsUsedBeforeTheyAreThereAreFound) {
  EXPECT_EQ(found_out(5,
                      [](ir::Schedule&, EngineRun& run, std::uint64_t) {
                        run.fault = PlantedFault::missing_wait;
                        run.which = -1;
                      }),
            5);
}

TEST(RandomCollectivesFaults, MemoryWrittenBeforeItsReleaseIsFound) {
  // In processes: what is planted is a race, which the thread sanitizer would report by itself.
  EXPECT_GE(found_out(
                10,
                [](ir::Schedule&, EngineRun& run, std::uint64_t) {
                  run.fault = PlantedFault::missing_release;
                  run.which = -1;
                },
                RanksAs::processes),
            5);
}

TEST(RandomCollectivesFaults, TwoValuesOnOneOffsetAreFound) {
  EXPECT_EQ(found_out(5,
                      [](ir::Schedule& s, EngineRun&, std::uint64_t seed) {
                        // Moves a storage onto a neighbour that lives longer.
                        std::vector<std::pair<ir::StorageId, std::int64_t>> moves;
                        for (const auto& [a, p] : s.plan->placements) {
                          for (const auto& [b, q] : s.plan->placements) {
                            const bool meet = p.space == q.space && p.bytes <= q.bytes &&
                                              p.first_step > q.first_step && p.last_step < q.last_step;
                            if (a != b && meet) moves.emplace_back(a, q.offset);
                          }
                        }
                        const auto& [storage, offset] = moves[seed * 31 % moves.size()];
                        s.plan->placements[storage].offset = offset;
                      }),
            5);
}

// ---- compiled

TEST(RandomCollectives, CompiledProgramsFindTheInterpretersBits) {
  const std::uint64_t first = first_seed(1000);
  const int count = random_cases(2), kTogether = 2;
  for (int from = 0; from < count; from += kTogether) {
    Compiled compiled("-O1");
    std::map<std::string, RandomCollectives> programs;
    for (int k = from; k < std::min(count, from + kTogether); ++k) {
      const std::uint64_t seed = first + static_cast<std::uint64_t>(k);
      const std::string name = fmt::format("seed{}", seed);
      RandomCollectives program = random_collectives(seed, {.ranks = 3 + static_cast<int>(seed % 2)});
      ir::Schedule schedule = program.schedule;
      optimise(schedule, seed % 2 == 0 ? 0 : 1);
      compiled.add_schedule(name, std::move(schedule), seed % 2 == 0);
      programs.emplace(name, std::move(program));
    }
    compiled.build();
    for (const auto& [name, program] : programs) {
      const auto want = ir::run(program.schedule, program.inputs).outputs;
      for (RanksAs ranks : {RanksAs::threads, RanksAs::processes}) {
        std::string error;
        rt::LaunchOptions launch;
        launch.world = rt::world_options(*compiled.table(name));
        const auto got = run_on_ranks(
            ranks, launch, want,
            [&](rt::World& world) {
              rt::Program p = compiled.open(name, &world);
              std::vector<ir::Tensor> out;
              for (int step = 0; step < 3; ++step)
                out = compiled.run(p, program.inputs[static_cast<std::size_t>(world.rank())]);
              return out;
            },
            &error);
        ASSERT_EQ(error, "") << name;
        ASSERT_EQ(difference(program.schedule.graph, got, want), "") << name << "\n" << program.text;
      }
    }
  }
}

}  // namespace
}  // namespace braid::test
