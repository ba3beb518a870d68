// Random attention computes the same bits in parts as at once, in memory that the bound on its scores limits.
#include "passes/expand_attention.h"

#include <gtest/gtest.h>

#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/default_passes.h"
#include "passes/plan_memory.h"
#include "passes/runner.h"
#include "tests/support/random.h"
#include "tests/support/random_attention.h"
#include "tests/support/random_tensors.h"

namespace braid::test {
namespace {

using namespace ir;

int products(const Schedule& schedule) {
  int count = 0;
  for (OpId op : execution_order(schedule)) count += schedule.graph[op].as<Gemm>() != nullptr;
  return count;
}

TEST(ExpandAttention, PartsHaveTheBitsOfTheWhole) {
  constexpr DType kTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16};
  int divided = 0;
  const int count = random_cases(40);
  for (int k = 0; k < count; ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomWindows program = random_attention(seed, kTypes[seed % std::size(kTypes)]);
    const std::vector<std::vector<Tensor>> inputs = {
        random_inputs(program.schedule.graph, program.dims, seed, false)};
    Schedule whole = program.schedule, parts = program.schedule;
    passes::ExpandAttention().run(whole);
    passes::ExpandAttention{.score_bytes = static_cast<std::int64_t>(1 + seed * 37 % 400)}.run(parts);
    const auto want = run(whole, inputs).outputs;
    divided += products(parts) > products(whole);
    ASSERT_TRUE(verify(parts).empty()) << print(parts);
    EXPECT_EQ(run(parts, inputs).outputs, want) << print(parts);
    passes::run_passes(parts, passes::default_passes());
    passes::run_passes(whole, passes::default_passes());
    EXPECT_EQ(run(parts, inputs, {.use_plan = true}).outputs, run(whole, inputs).outputs) << print(parts);
    if (HasFailure()) return;
  }
  EXPECT_GT(divided, count / 3);
}

// Short sequences of a program with long ones are one part: the first, and the others are empty.
TEST(ExpandAttention, SizesOfPartsFollowTheStepAndMemoryTheBound) {
  const std::string text = R"(graph main  dim b in [1, 4]  dim n in [1, 64]
input %q: f16[b, 2, n, 8]  input %k: f16[b, 2, n, 8]  input %v: f16[b, 2, n, 8]
%y: f16[b, 2, n, 8] output = attention %q, %k, %v
output %y
)";
  const auto planned = [&](std::int64_t score_bytes) {
    Schedule schedule = parse_schedule(text);
    passes::ExpandAttention{.score_bytes = score_bytes}.run(schedule);
    passes::run_passes(schedule, passes::default_passes());
    return schedule;
  };
  constexpr std::int64_t kElement = 2 * 64 * 64 * 4;  // scores of one element of the batch
  const Schedule whole = planned(4 * kElement), elements = planned(kElement), heads = planned(kElement / 2);
  EXPECT_EQ(products(whole), 2);
  EXPECT_EQ(products(elements), 2 * 4);
  EXPECT_EQ(products(heads), 2 * 8);
  const auto arena = [](const Schedule& s) { return s.plan->arena_bytes; };
  EXPECT_EQ(arena(whole), 4 * (kElement + kElement / 2));
  EXPECT_EQ(arena(elements), kElement + kElement / 2);
  EXPECT_EQ(arena(heads), kElement / 2 + kElement / 4);
  // Elements of the batch in the second part.
  const auto second = [&](const Schedule& s, std::int64_t b, std::int64_t n) {
    int product = 0;
    for (OpId op : execution_order(s)) {
      const auto* gemm = s.graph[op].as<Gemm>();
      if (gemm == nullptr || ++product != 3) continue;
      return bounds(substitute(gemm->out.sizes[0],
                               [&](Expr d) -> std::optional<Expr> {
                                 return to_string(d) == "b" ? Expr(b) : Expr(n);
                               }))
          .max;
    }
    return std::int64_t{-1};
  };
  EXPECT_EQ(second(elements, 4, 64), 1);
  EXPECT_EQ(second(elements, 4, 8), 0);
  EXPECT_EQ(second(elements, 1, 64), 0);
}

TEST(ExpandAttention, NeverHasMoreThan64Parts) {
  Schedule schedule = parse_schedule(R"(graph main  dim b in [1, 1000]
input %q: f32[b, 5, 3, 4]  input %k: f32[b, 5, 3, 4]  input %v: f32[b, 5, 3, 4]
%y: f32[b, 5, 3, 4] output = attention %q, %k, %v
output %y
)");
  passes::ExpandAttention{.score_bytes = 1}.run(schedule);
  EXPECT_LE(products(schedule), 2 * 64);
  EXPECT_GE(products(schedule), 2 * 32);
}

}  // namespace
}  // namespace braid::test
