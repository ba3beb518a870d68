// Random products that are results of the program compute the same bits in padded rows.
#include "passes/pad_results.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

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

// One product of [b, n, depth] or [n, depth]; `tied` weights are a result, too.
std::string random_text(std::mt19937_64& random) {
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const auto numbers = [&](int count) {
    std::string out;
    for (int k = 0; k < count; ++k) out += fmt::format("{}{}", k == 0 ? "" : ", ", pick(7) - 3);
    return "[" + out + "]";
  };
  const bool batched = pick(3) == 0, transposed = pick(3) != 0, tied = pick(2) == 0;
  const int ranks = 1 + pick(2), depth = pick(2) == 0 ? 8 : 1 + pick(9), columns = 1 + pick(20);
  const std::string type = pick(2) == 0 ? "f16" : "bf16", rows = batched ? "b, n" : "n";
  const std::string size =
      transposed ? fmt::format("{}, {}", columns, depth) : fmt::format("{}, {}", depth, columns);
  const int count = depth * columns;
  const std::string data =
      ranks == 1 ? numbers(count) : fmt::format("per_rank({}, {})", numbers(count), numbers(count));
  std::string operand = transposed ? "transpose(%w)" : "%w";
  if (batched) {
    operand = fmt::format("%w [b, {}, {}] strides [0, {}]", depth, columns,
                          transposed ? fmt::format("1, {}", depth) : fmt::format("{}, 1", columns));
  }
  std::string text = fmt::format("graph main  ranks {}  dim n in [1, 5]  dim b in [1, 3]\n", ranks);
  text +=
      fmt::format("input %x: {}[{}, {}]\nconstant %w: {}[{}] = {}\n", type, rows, depth, type, size, data);
  text += fmt::format("%y: {}[{}, {}] output = gemm %x, {}\noutput %y\n", type, rows, columns, operand);
  if (tied)
    text += fmt::format("%t: {}[{}] output = pointwise {{ %0 = load %w %1 = neg %0 store %1 }}\noutput %t\n",
                        type, size);
  return text;
}

TEST(PadResults, KeepsTheBitsOfRandomPrograms) {
  int padded = 0;
  const int count = random_cases(200);
  for (int k = 0; k < count; ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const std::string text = random_text(random);
    Schedule schedule = parse_schedule(text);
    const std::map<std::string, std::int64_t> dims = {{"n", 1 + seed % 5}, {"b", 1 + seed % 3}};
    std::vector<std::vector<Tensor>> inputs;
    for (int rank = 0; rank < schedule.graph.ranks; ++rank)
      inputs.push_back(random_inputs(schedule.graph, dims, seed + static_cast<std::uint64_t>(rank), true));
    const auto want = run(schedule, inputs).outputs;
    passes::PassContext context;
    const passes::PadResults pass{.slowdown = 1e15, .part_bytes = static_cast<std::int64_t>(1 + seed % 200)};
    padded += pass.run(schedule, context);
    ASSERT_TRUE(verify(schedule).empty()) << text << print(schedule);
    EXPECT_EQ(run(schedule, inputs).outputs, want) << text << print(schedule);
    EXPECT_EQ(print(parse_schedule(print(schedule))), print(schedule));
    passes::run_passes(schedule, passes::default_passes());
    EXPECT_EQ(run(schedule, inputs, {.use_plan = true}).outputs, want) << text << print(schedule);
    if (HasFailure()) return;
  }
  EXPECT_GT(padded, count / 2);
}

}  // namespace
}  // namespace braid::test
