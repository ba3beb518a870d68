// Random programs, compiled, against the interpreter: bit for bit, on one to four ranks. Every second one
// holds itself to its memory plan (runtime/lifecycle.h).
//
// BRAID_TEST_SEED sets the first seed, BRAID_RANDOM_SCALE multiplies the number of programs.
#include "tests/support/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "ir/error.h"
#include "ir/printer.h"
#include "passes/default_passes.h"
#include "passes/runner.h"
#include "runtime/comm/bootstrap.h"
#include "tests/codegen/compiled.h"
#include "tests/support/random_epilogues.h"
#include "tests/support/random_graph.h"

namespace braid::test {
namespace {

constexpr int kPerLibrary = 40;

// Small sizes are fused as well; every third program is only planned, every third has its collectives split.
void optimise_like(ir::Schedule& schedule, std::uint64_t seed) {
  const char* list = seed % 3 == 0   ? "plan_memory{in_place_collective_bytes=0}"
                     : seed % 3 == 1 ? "split_collectives{chunks=3},plan_memory"
                                     : "dead_code,forward_copies,forward_parts,fuse_epilogues,fuse_vertical{"
                                       "min_outer=1,small_inner=1000000}"
                                       ",fuse_horizontal,merge_loops,"
                                       "sink_releases,plan_memory";
  passes::run_passes(schedule, passes::parse_pass_list(list));
}

std::string run_and_compare(Compiled& compiled, const std::string& name, const RandomProgram& program) {
  const auto want = ir::run(program.schedule, program.inputs).outputs;
  const auto ranks = program.inputs.size();
  std::vector<std::vector<ir::Tensor>> got(ranks);
  std::vector<std::string> errors(ranks);
  rt::LaunchOptions launch;
  launch.world = rt::world_options(*compiled.table(name));
  launch.world.timeout_ms = 20000;
  const rt::Status status = rt::launch_threads(static_cast<int>(ranks), launch, [&](rt::World& world) {
    const auto r = static_cast<std::size_t>(world.rank());
    try {
      rt::Program p = compiled.open(name, &world);
      for (int step = 0; step < 3; ++step) got[r] = compiled.run(p, program.inputs[r]);
      return 0;
    } catch (const std::exception& e) {
      errors[r] = e.what();
      return 1;
    }
  });
  if (!status.ok()) {
    std::string text = status.message;
    for (const std::string& e : errors) text += "\n" + e;
    return text;
  }
  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::size_t k = 0; k < want[r].size(); ++k) {
      if (!(got[r][k] == want[r][k]))
        return "rank " + std::to_string(r) + ", output " + program.schedule.graph.outputs[k].name +
               " differs";
    }
  }
  return {};
}

TEST(CppRandom, CompiledProgramsFindTheSameBits) {
  const std::uint64_t first = first_seed(1);
  const int count = random_cases(kPerLibrary);
  for (int from = 0; from < count; from += kPerLibrary) {
    Compiled compiled("-O1 -march=native");
    std::map<std::string, RandomProgram> programs;
    for (int k = from; k < std::min(count, from + kPerLibrary); ++k) {
      const std::uint64_t seed = first + static_cast<std::uint64_t>(k);
      RandomProgram program = random_program(seed, 8);
      try {
        ir::Schedule schedule = program.schedule;
        optimise_like(schedule, seed);
        compiled.add_schedule("seed" + std::to_string(seed), std::move(schedule), seed % 2 == 0);
      } catch (const ir::InternalError& e) {
        ADD_FAILURE() << "seed " << seed << ": " << e.what() << "\n" << ir::print(program.schedule);
        continue;
      } catch (const ir::UserError& e) {
        ASSERT_EQ(e.code(), 601) << "seed " << seed << ": " << e.what();  // what this target does not have
        continue;
      }
      programs.emplace("seed" + std::to_string(seed), std::move(program));
    }
    compiled.build();
    for (const auto& [name, program] : programs) {
      const std::string problem = run_and_compare(compiled, name, program);
      EXPECT_EQ(problem, "") << name << "\n" << ir::print(compiled.schedule(name));
    }
  }
}

// Recognised epilogues, which the library computes, and similar ones, which a loop computes.
TEST(CppRandom, ActivationsAndTheirLookAlikesBehindProducts) {
  const std::uint64_t first = first_seed(1);
  Compiled compiled("-O1 -march=native");
  const auto count = static_cast<std::uint64_t>(random_cases(6));
  for (std::uint64_t seed = first; seed < first + count; ++seed)
    compiled.add("epilogues" + std::to_string(seed), random_epilogues(seed, "f32"));
  compiled.build();
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const std::string name = "epilogues" + std::to_string(seed);
    for (std::int64_t n : {1, 3, 40}) {
      const auto inputs = random_inputs(compiled.schedule(name).graph, {{"n", n}}, seed, true);
      compiled.expect_like_interpreter_on(name, inputs, 2e-5);
    }
  }
}

}  // namespace
}  // namespace braid::test
