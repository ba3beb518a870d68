// Random programs of 200 collectives, compiled for the emulated device.
#include "tests/support/random_collectives.h"

#include "ir/interpreter.h"
#include "tests/codegen_cuda/run_case.h"

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

}  // namespace
}  // namespace braid::test
