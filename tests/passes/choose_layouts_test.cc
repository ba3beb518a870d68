// Random convolutions and pools with loops around them give the same bits in other layouts.
#include "passes/choose_layouts.h"

#include <gtest/gtest.h>

#include "ir/interpreter.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/default_passes.h"
#include "passes/runner.h"
#include "tests/support/random.h"
#include "tests/support/random_tensors.h"
#include "tests/support/random_windows.h"

namespace braid::test {
namespace {

TEST(ChooseLayouts, KeepsTheMeaningOfRandomPrograms) {
  int changed = 0, fused = 0;
  const int count = random_cases(150);
  for (int k = 0; k < count; ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomWindows program = random_windows(seed, seed % 3 == 0 ? ir::DType::i32 : ir::DType::f32);
    const std::vector<std::vector<ir::Tensor>> inputs = {
        random_inputs(program.schedule.graph, program.dims, seed, true)};
    const auto want = ir::run(program.schedule, inputs).outputs[0];
    ir::Schedule schedule = program.schedule;
    if (passes::ChooseLayouts().run(schedule)) ++changed;
    ir::verify(schedule);
    EXPECT_EQ(ir::run(schedule, inputs).outputs[0], want) << ir::print(schedule);
    ASSERT_FALSE(passes::ChooseLayouts().run(schedule)) << ir::print(schedule);
    passes::run_passes(schedule, passes::default_passes());
    for (const ir::Operation& op : schedule.graph.ops) {
      const auto* convolution = op.as<ir::Convolution>();
      fused += convolution != nullptr && convolution->epilogue;
    }
    EXPECT_EQ(ir::run(schedule, inputs, {.use_plan = true}).outputs[0], want) << ir::print(schedule);
  }
  EXPECT_GT(changed, count / 3);
  EXPECT_GT(fused, 0);
}

}  // namespace
}  // namespace braid::test
