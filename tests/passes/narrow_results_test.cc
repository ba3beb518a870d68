// Products under --precision, with random readers, have the same bits when results are narrow.
#include "passes/narrow_results.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/default_passes.h"
#include "passes/runner.h"
#include "tests/support/random.h"
#include "tests/support/random_tensors.h"

namespace braid::test {
namespace {

using namespace ir;

TEST(NarrowResults, KeepsTheBitsOfRandomReaders) {
  int narrowed = 0;
  const int count = random_cases(100);
  for (int k = 0; k < count; ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const std::string type = pick(2) == 0 ? "f16" : "bf16";
    std::string text = fmt::format(
        "graph main  dim n in [1, 5]\ninput %x: {0}[n, 3]  input %w: {0}[3, 16]\n%y: f32[n, 16] = gemm %x, "
        "%w\n",
        type);
    const int readers = 1 + pick(3);
    for (int r = 0; r < readers; ++r) {
      const int first = pick(8);
      const bool wide = pick(8) == 0;
      text += fmt::format(
          "%r{0}: {1}[n, 8] output = pointwise {{ %0 = load %y[16*i0 + i1 + {2}] %1 = cast {1} %0 %2 = tanh "
          "%1 store %2 }}\noutput %r{0}\n",
          r, wide ? "f32" : type, first);
    }
    Schedule schedule = parse_schedule(text);
    const std::vector<std::vector<Tensor>> inputs = {
        random_inputs(schedule.graph, {{"n", 1 + seed % 5}}, seed)};
    const auto want = run(schedule, inputs).outputs;
    narrowed += passes::NarrowResults().run(schedule);
    ASSERT_TRUE(verify(schedule).empty()) << print(schedule);
    EXPECT_EQ(run(schedule, inputs).outputs, want) << print(schedule);
    passes::run_passes(schedule, passes::default_passes());
    EXPECT_EQ(run(schedule, inputs, {.use_plan = true}).outputs, want) << print(schedule);
    if (HasFailure()) return;
  }
  EXPECT_GT(narrowed, count / 2);
}

}  // namespace
}  // namespace braid::test
