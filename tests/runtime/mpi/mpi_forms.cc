// The program of each rank of mpirun. It runs every form of every collective as a compiled program, on as
// many ranks as mpirun started and on a subgroup, against the reference of tests/support/collective_forms.h.
// It also runs random programs of 200 collectives, against the interpreter.
#include <gtest/gtest.h>
#include <mpi.h>

#include "driver/compile.h"
#include "ir/interpreter.h"
#include "runtime/comm/mpi_world.h"
#include "tests/codegen/compiled.h"
#include "tests/support/collective_forms.h"
#include "tests/support/engine_run.h"
#include "tests/support/random.h"
#include "tests/support/random_collectives.h"

namespace braid::test {
namespace {

int mpi_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}
int mpi_size() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

// Runs three steps of this rank.
std::vector<ir::Tensor> run_steps(Compiled& compiled, const std::string& name,
                                  const std::vector<ir::Tensor>& inputs) {
  std::unique_ptr<rt::World> world;
  rt::WorldOptions options = rt::world_options(*compiled.table(name));
  options.timeout_ms = 60'000;
  const rt::Status joined = rt::join_mpi_world(options, &world);
  if (!joined.ok()) throw rt::ProgramError(rt::kCommFailed, joined.message);
  rt::Program program = compiled.open(name, world.get());
  std::vector<ir::Tensor> out;
  for (int step = 0; step < 3; ++step) out = compiled.run(program, inputs);
  return out;
}

// Before and after the passes, compiled.
void expect_forms(const std::vector<CollectiveCase>& cases) {
  const auto me = static_cast<std::size_t>(mpi_rank());
  Compiled compiled("-O1");
  for (const CollectiveCase& c : cases) {
    ir::Schedule schedule = c.schedule;
    optimise(schedule, CompileOptions{});
    compiled.add_schedule(c.name, std::move(schedule), true);
    schedule = c.schedule;
    CompileOptions only_planned;
    only_planned.passes = "plan_memory";
    optimise(schedule, only_planned);
    compiled.add_schedule(c.name + "_as_written", std::move(schedule));
  }
  // Rank 0 compiles, the others find what it has built.
  if (me == 0) compiled.build();
  MPI_Barrier(MPI_COMM_WORLD);
  compiled.build();
  for (const CollectiveCase& c : cases) {
    for (const std::string& name : {c.name, c.name + "_as_written"}) {
      // The results of the others are the interpreter's: each rank checks its own.
      std::vector<std::vector<ir::Tensor>> results = ir::run(c.schedule, c.inputs).outputs;
      results[me] = run_steps(compiled, name, c.inputs[me]);
      expect_results(c, results, name + " compiled, over MPI");
    }
  }
}

// The programs are those of tests/codegen/collective_forms_test.cc: whichever test is first compiles them for
// both.
TEST(MpiForms, CompiledProgramsEqualTheReference) { expect_forms(collective_cases(mpi_size())); }

// Which kernel runs is MPI's choice: what a program asks for changes nothing but where operands lie.
TEST(MpiForms, ProgramsThatAskForKernelsEqualTheReference) {
  expect_forms(peer_reading_collective_cases(mpi_size()));
}

// The programs of tests/codegen/random_collectives_test.cc, with as many ranks as there are here.
TEST(MpiForms, RandomProgramsFindTheInterpretersBits) {
  const auto me = static_cast<std::size_t>(mpi_rank());
  for (int k = 0; k < random_cases(12); ++k) {
    const std::uint64_t seed = first_seed(9000) + static_cast<std::uint64_t>(k);
    const RandomCollectives program = random_collectives(seed, {.ranks = mpi_size()});
    const auto want = ir::run(program.schedule, program.inputs).outputs;
    ir::Schedule schedule = program.schedule;
    CompileOptions options;
    if (seed % 3 != 0) options.passes = "plan_memory";
    optimise(schedule, options);
    std::unique_ptr<rt::World> world;
    const rt::Status joined = rt::join_mpi_world(world_for(schedule), &world);
    ASSERT_TRUE(joined.ok()) << joined.message;
    EngineRun run;
    run.delays = seed;
    run.steps = seed % 5 == 0 ? 2 : 1;
    std::vector<std::vector<ir::Tensor>> got = want;  // each rank checks its own
    got[me] = run_on_engine(schedule, program.inputs[me], *world, run);
    ASSERT_EQ(difference(schedule.graph, got, want), "") << "seed " << seed << ", rank " << me << "\n"
                                                         << program.text;
  }
}

}  // namespace
}  // namespace braid::test

// The application has initialised MPI: Braid uses it and leaves the end to the application.
int main(int argc, char** argv) {
  int level = 0;
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
  ::testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  if (result != 0) MPI_Abort(MPI_COMM_WORLD, result);
  MPI_Finalize();
  return result;
}
