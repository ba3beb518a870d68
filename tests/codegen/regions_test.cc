// Regions: bodies that run several times or are chosen by a flag.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/default_passes.h"
#include "passes/runner.h"
#include "runtime/comm/bootstrap.h"
#include "tests/codegen/compiled.h"
#include "tests/support/random.h"
#include "tests/support/random_collectives.h"
#include "tests/support/random_regions.h"
#include "tests/support/rank_results.h"

namespace braid::test {
namespace {

// Every third one is only planned, every third has small sizes fused as well.
void optimise_regions(ir::Schedule& schedule, std::uint64_t seed) {
  passes::run_passes(schedule, seed % 3 == 0 ? passes::parse_pass_list("plan_memory")
                               : seed % 3 == 1
                                   ? passes::default_passes()
                                   : passes::parse_pass_list(
                                         "dead_code,fuse_epilogues,fuse_vertical{min_outer=1,"
                                         "small_inner=1000000},fuse_horizontal,merge_loops,plan_memory"));
}

TEST(Regions, ValuesAreCarriedFromRunToRun) {
  Compiled compiled("-O1");
  // A Fibonacci sequence: two carried values, one of them through a copy.
  compiled.add("fibonacci", R"(graph g
dim n in [0, 9]
input %x: f32[2] input %times: i32[n]
%a: f32[2] = pointwise { %0 = load %x store %0 }
%b: f32[2] = pointwise { %0 = load %x store %0 }
%a.1 mutates %a, %b.1 mutates %b = repeat n (%a, %b) {
  %old: f32[2] = pointwise { %0 = load %b store %0 }
  %sum: f32[2] = pointwise { %0 = load %a %1 = load %b %2 = add %0, %1 store %2 }
  yield %old, %sum
}
output %a.1
output %b.1)");
  compiled.add("chosen_in_a_loop", R"(graph g
input %x: f32[2] input %flag: bool[]
%y: f32[2] = pointwise { %0 = load %x store %0 }
%y.1 mutates %y = repeat 3 (%y, %flag) {
  %z: f32[2] = branch (%flag, %y) {
    %p: f32[2] = pointwise { %0 = load %y %1 = add %0, %0 store %1 }
    yield %p
  } else {
    %y.2 mutates %y = repeat 2 (%y) {
      %y.3 mutates %y = pointwise { %0 = load %y %1 = neg %0 %2 = sub %1, %0 store %2 }
      yield %y.3
    }
    yield %y.2
  }
  yield %z
}
output %y.1)");
  compiled.add("doubled_below_a_limit", R"(graph g
input %x: f32[2] input %limit: f32[]
%go: bool[] = pointwise { %0 = load %x[0] %1 = load %limit %2 = lt %0, %1 store %2 }
%y: f32[2] = pointwise { %0 = load %x store %0 }
%go.1 mutates %go, %y.1 mutates %y = while (%go, %y, %limit) {
  %y.2: f32[2] = pointwise { %0 = load %y %1 = add %0, %0 store %1 }
  %again: bool[] = pointwise { %0 = load %y.2[0] %1 = load %limit %2 = lt %0, %1 store %2 }
  yield %again, %y.2
}
output %y.1)");
  compiled.build();
  for (const float limit : {0.F, 2.F, 900.F}) {
    compiled.expect_like_interpreter_on("doubled_below_a_limit",
                                        {ir::make_tensor<float>(ir::DType::f32, {2}, {1, 3}),
                                         ir::make_tensor<float>(ir::DType::f32, {}, {limit})},
                                        0);
  }
  rt::Program p = compiled.open("fibonacci");
  for (const std::int64_t n : {0, 1, 5, 9}) {
    const std::vector<ir::Tensor> got =
        compiled.run(p, {ir::make_tensor<float>(ir::DType::f32, {2}, {1, 2}),
                         ir::make_tensor<std::int32_t>(
                             ir::DType::i32, {n}, std::vector<std::int32_t>(static_cast<std::size_t>(n)))});
    float a = 1, b = 1;
    for (std::int64_t k = 0; k < n; ++k) a = std::exchange(b, a + b);
    EXPECT_EQ(got[0].values<float>(), (std::vector<float>{a, 2 * a})) << n;
    EXPECT_EQ(got[1].values<float>(), (std::vector<float>{b, 2 * b})) << n;
  }
  for (const std::uint8_t flag : {0, 1}) {
    compiled.expect_like_interpreter_on("chosen_in_a_loop",
                                        {ir::make_tensor<float>(ir::DType::f32, {2}, {1, 2}),
                                         ir::make_tensor<std::uint8_t>(ir::DType::boolean, {}, {flag})},
                                        0);
  }
}

std::string run_regions_and_compare(Compiled& compiled, const std::string& name,
                                    const RandomProgram& program) {
  const auto want = ir::run(program.schedule, program.inputs).outputs;
  rt::LaunchOptions launch;
  launch.world = rt::world_options(*compiled.table(name));
  launch.world.timeout_ms = 20000;
  std::string error;
  const auto got = run_on_ranks(
      RanksAs::threads, launch, want,
      [&](rt::World& world) {
        rt::Program p = compiled.open(name, &world);
        std::vector<ir::Tensor> out;
        for (int step = 0; step < 2; ++step)
          out = compiled.run(p, program.inputs[static_cast<std::size_t>(world.rank())]);
        return out;
      },
      &error);
  return error.empty() ? difference(program.schedule.graph, got, want) : error;
}

TEST(RandomRegions, PassesKeepTheirMeaning) {
  for (int k = 0; k < random_cases(300); ++k) {
    const std::uint64_t seed = first_seed(1) + static_cast<std::uint64_t>(k);
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const RandomProgram program = random_regions(seed);
    for (const ir::Violation& v : ir::verify(program.schedule))
      FAIL() << v.node << ": " << v.message << "\n" << ir::print(program.schedule);
    ir::Schedule schedule = program.schedule;
    optimise_regions(schedule, seed);
    ASSERT_EQ(ir::run(schedule, program.inputs, {.use_plan = true, .order_seed = seed + 1}).outputs,
              ir::run(program.schedule, program.inputs).outputs)
        << ir::print(program.schedule);
  }
}

TEST(RandomRegions, CompiledProgramsFindTheInterpretersBits) {
  constexpr int kPerLibrary = 20;
  const int count = random_cases(kPerLibrary);
  for (int from = 0; from < count; from += kPerLibrary) {
    Compiled compiled("-O1 -march=native");
    std::map<std::string, RandomProgram> programs;
    for (int k = from; k < std::min(count, from + kPerLibrary); ++k) {
      const std::uint64_t seed = first_seed(1) + static_cast<std::uint64_t>(k);
      RandomProgram program = random_regions(seed);
      ir::Schedule schedule = program.schedule;
      optimise_regions(schedule, seed);
      compiled.add_schedule(fmt::format("seed{}", seed), std::move(schedule), seed % 2 == 0);
      programs.emplace(fmt::format("seed{}", seed), std::move(program));
    }
    compiled.build();
    for (const auto& [name, program] : programs)
      EXPECT_EQ(run_regions_and_compare(compiled, name, program), "") << name << "\n"
                                                                      << ir::print(program.schedule);
  }
}

}  // namespace
}  // namespace braid::test
