// Every part that is missing from a generated program is found.
#include "tests/codegen_cuda/mutants.h"

#include "tests/codegen_cuda/run_case.h"

namespace braid::test {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

class Mutants : public CudaCase, public ::testing::WithParamInterface<const char*> {};

TEST_P(Mutants, AreFoundUnlessTheChangeDoesNoHarm) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  int wrong = 0;
  for (const Mutant& mutant : mutants()) {
    if (mutant.base != GetParam()) continue;
    SCOPED_TRACE(mutant.name + ": " + mutant.change);
    emulated::options().time_out = std::chrono::milliseconds(2000);
    RunOptions options;
    options.program = mutant.name;
    options.steps = 2;
    options.integers = false;
    const std::string wrong_values = difference(run_case(mutant.base, mutant.dims, options), 2e-3);
    std::vector<std::string> texts = found();
    if (!wrong_values.empty()) texts.push_back(wrong_values);
    emulated::reset_devices();
    if (mutant.change.empty() || !mutant.harmless.empty()) {
      EXPECT_THAT(texts, IsEmpty());
    } else {
      EXPECT_THAT(texts, Not(IsEmpty()));
      ++wrong;
    }
  }
  EXPECT_GT(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Cuda, Mutants,
                         ::testing::Values("softmax_large_row", "softmax_f16", "sliced_rows",
                                           "layernorm_long", "fused_rows_of_folds", "long_rows",
                                           "fused_columns", "split_sums", "transposes_f16", kTileProductBase,
                                           kTileConvolutionBase, "peers_2_any_size_one_shot",
                                           "peers_2_any_size_two_shot"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace braid::test
