// Kernels that read peers' memory, as operators: attribute `algorithm` of ai.braid's AllReduce, AllGather and
// ReduceScatter, on 1, 2, 3, 4 and 8 ranks and on subgroups.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/collectives_of.h"
#include "codegen/cpp/emit.h"
#include "codegen/cuda/emit.h"
#include "driver/compile.h"
#include "runtime/comm/bootstrap.h"
#include "tests/codegen/compiled.h"
#include "tests/frontend/models.h"
#include "tests/support/collective_forms.h"
#include "tests/support/rank_results.h"
#include "tests/support/user_error.h"

namespace braid::test {
namespace {

using ::testing::HasSubstr;

class PeerReadingKernels : public testing::TestWithParam<int> {};

TEST_P(PeerReadingKernels, EqualTheReference) {
  const int n = GetParam();
  Compiled compiled("-O1");
  const std::vector<CollectiveCase> cases = peer_reading_collective_cases(n);
  for (const CollectiveCase& c : cases) {
    expect_results(c, ir::run(c.schedule, c.inputs).outputs, "interpreter");
    ir::Schedule schedule = c.schedule;
    optimise(schedule, CompileOptions{});
    ir::InterpreterOptions planned;
    planned.use_plan = true;
    planned.order_seed = 5;
    expect_results(c, ir::run(schedule, c.inputs, planned).outputs, "interpreter after the passes");
    compiled.add_schedule(c.name, std::move(schedule), true);
    // The same, each complete where it starts.
    schedule = c.schedule;
    CompileOptions blocking;
    if (n > 1) blocking.force_kernels = {passes::parse_forced_kernel("*=one_shot:blocking")};
    optimise(schedule, blocking);
    expect_results(c, ir::run(schedule, c.inputs, planned).outputs, "interpreter, blocking");
    compiled.add_schedule(c.name + "_blocking", std::move(schedule), true);
  }
  compiled.build();
  for (const CollectiveCase& c : cases) {
    for (const std::string& name : {c.name, c.name + "_blocking"}) {
      for (RanksAs how : {RanksAs::threads, RanksAs::processes}) {
        rt::LaunchOptions launch;
        launch.world = rt::world_options(*compiled.table(name));
        std::string error;
        const auto got = run_on_ranks(
            how, launch, ir::run(c.schedule, c.inputs).outputs,
            [&](rt::World& world) {
              rt::Program program = compiled.open(name, &world);
              std::vector<ir::Tensor> out;
              for (int step = 0; step < 3; ++step)
                out = compiled.run(program, c.inputs[static_cast<std::size_t>(world.rank())]);
              return out;
            },
            &error);
        ASSERT_EQ(error, "") << name;
        expect_results(c, got, name + " compiled, by " + to_string(how));
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, PeerReadingKernels, testing::Values(1, 2, 3, 4, 8),
                         testing::PrintToStringParamName());

constexpr const char* kTwoShot = R"(g (float[8, 4] x) => (float[8, 4] y) {
  a = Abs(x)
  b = ai.braid.AllReduce <algorithm = "two_shot"> (a)
  y = Neg(b)
})";

TEST(PeerReadingKernels, OperandsLieInSymmetricMemory) {
  ir::Schedule schedule = frontend::import_text(kTwoShot, {.ranks = 2});
  const std::vector<ir::OpId> collectives = analysis::collectives_of(schedule);
  ASSERT_EQ(collectives.size(), 1u);
  const auto& kernel = *schedule.graph[collectives[0]].as<ir::CollectiveKernel>();
  EXPECT_EQ(kernel.algorithm, ir::Algorithm::two_shot);
  for (const ir::TensorRef& ref : {kernel.inputs.at(0), kernel.outputs.at(0)}) {
    const ir::Storage& storage = schedule.graph[ir::root_storage(schedule.graph, ref.buffer)];
    EXPECT_EQ(storage.kind, ir::StorageKind::comm);
    EXPECT_EQ(storage.comm_kind, ir::CommBufferKind::symmetric);
  }
}

TEST(PeerReadingKernels, AGraphInputIsCopiedIn) {
  ir::Schedule schedule = frontend::import_text(
      R"(g (float[8] x) => (float[8] y) { y = ai.braid.AllReduce <algorithm = "one_shot"> (x) })",
      {.ranks = 2});
  const auto& kernel = *schedule.graph[analysis::collectives_of(schedule).at(0)].as<ir::CollectiveKernel>();
  const ir::Storage& storage = schedule.graph[ir::root_storage(schedule.graph, kernel.inputs.at(0).buffer)];
  EXPECT_EQ(storage.kind, ir::StorageKind::comm);
}

TEST(PeerReadingKernels, TheProgramAsksTheEngineForThatAlgorithm) {
  ir::Schedule schedule = frontend::import_text(kTwoShot, {.ranks = 2});
  optimise(schedule, CompileOptions{});
  const codegen::cpp::EmittedProgram program = codegen::cpp::emit_cpp(schedule, {.name = "p"});
  EXPECT_THAT(program.source, HasSubstr("\"two_shot\"}"));
}

TEST(PeerReadingKernels, TheCudaTargetHasKernelsOfItsOwn) {
  ir::Schedule schedule = frontend::import_text(kTwoShot, {.ranks = 2});
  CompileOptions options;
  options.target = "cuda";
  optimise(schedule, options);
  const codegen::cuda::CudaProgram program = codegen::cuda::emit_cuda(schedule, {.name = "p"});
  EXPECT_TRUE(program.peer_kernels);
  EXPECT_THAT(program.body, HasSubstr("two_shot_all_reduce<"));
  EXPECT_THAT(program.body, ::testing::Not(HasSubstr("ncclAllReduce")));
}

TEST(PeerReadingKernels, AnAlgorithmThatTheOperatorDoesNotHaveIsAnError) {
  const std::string error = error_of([] {
    frontend::import_text(
        R"(g (float[8] x) => (float[16] y) { y = ai.braid.AllGather <algorithm = "two_shot"> (x) })",
        {.ranks = 2});
  });
  EXPECT_THAT(error, HasSubstr("expected automatic, one_shot, ring, library"));
}

}  // namespace
}  // namespace braid::test
