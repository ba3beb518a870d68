#include <fmt/format.h>

#include "tests/codegen_cuda/run_case.h"

namespace braid::test {
namespace {

class Random : public CudaCase {};

TEST_F(Random, ProgramsAreAsTheInterpreterSays) {
  for (std::uint64_t seed = 1; seed <= kRandomCases; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    emulated::options().max_delay = std::chrono::microseconds(seed % 3 == 0 ? 100 : 0);
    const RandomProgram program = random_case(seed);
    RunOptions options;
    options.steps = 2;
    options.all_inputs = program.inputs;
    expect_equal(run_case("random_" + std::to_string(seed), program.dims, options), 1e-5);
    ASSERT_THAT(found(), ::testing::IsEmpty());
  }
}

TEST_F(Random, ActivationsAndTheirLookAlikesBehindProducts) {
  constexpr std::pair<const char*, double> kTypes[] = {{"f32", 2e-5}, {"f16", 5e-3}, {"bf16", 4e-2}};
  for (const auto& [type, tolerance] : kTypes) {
    for (std::uint64_t seed = 1; seed <= kEpilogueCases; ++seed) {
      for (std::int64_t n : {1, 40}) {
        SCOPED_TRACE(fmt::format("{}, seed {}, n = {}", type, seed, n));
        expect_equal(run_case(fmt::format("epilogues_{}_{}", type, seed), {{"n", n}}), tolerance);
      }
    }
  }
}

}  // namespace
}  // namespace braid::test
