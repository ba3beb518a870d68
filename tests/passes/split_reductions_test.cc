// Reductions in parts give the same results as whole ones: all kinds and types, kept and folded dimensions in
// any order, sizes that pieces do not divide.
#include "passes/split_reductions.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "analysis/costs/cost_model.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/default_passes.h"
#include "passes/runner.h"
#include "tests/support/onnx_cases.h"
#include "tests/support/random.h"
#include "tests/support/random_tensors.h"

namespace braid::test {
namespace {

using namespace ir;

// A machine on which everything is split that can be.
passes::PassContext slow_memory() {
  analysis::Machine machine = analysis::load_machine("h200");
  machine.memory_gb_s = 1e-6;
  passes::PassContext context;
  context.costs = std::make_shared<const analysis::CostModel>(std::move(machine), analysis::CostOptions{});
  return context;
}

TEST(SplitReductions, RandomReductionsInPartsAreTheSame) {
  int split = 0;
  const int count = random_cases(200);
  for (int k = 0; k < count; ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const auto one_of = [&](std::initializer_list<const char*> all) {
      return *(all.begin() + pick(static_cast<int>(all.size())));
    };
    const std::string type = one_of({"f32", "f16", "bf16", "f64", "i32", "u8"}),
                      kind = one_of({"sum", "max", "min", "prod"});
    const int dims = 1 + pick(4), reduced = 1 + pick(dims);
    // Indices of the loop in the order of the operand's dimensions.
    std::vector<int> order(static_cast<std::size_t>(dims));
    std::vector<std::string> sizes;
    for (int d = 0; d < dims; ++d) {
      order[static_cast<std::size_t>(d)] = d;
      sizes.push_back(pick(3) == 0 ? "n" : std::to_string(1 + pick(d == 0 ? 60 : 7)));
    }
    std::shuffle(order.begin(), order.end(), random);
    std::string index, stride = "1", shape;
    for (int at = dims; at-- > 0;) {
      const auto d = static_cast<std::size_t>(order[static_cast<std::size_t>(at)]);
      index = fmt::format("i{}*{}{}{}", d, stride, index.empty() ? "" : " + ", index);
      stride = fmt::format("{}*{}", sizes[d], stride);
      shape = fmt::format("{}{}{}", sizes[d], shape.empty() ? "" : ", ", shape);
    }
    const auto part = [&](int begin, int end) {
      std::string out;
      for (int d = begin; d < end; ++d) out += (d == begin ? "" : ", ") + sizes[static_cast<std::size_t>(d)];
      return out;
    };
    const int kept = dims - reduced;
    Schedule schedule =
        parse_schedule(fmt::format("graph main  dim n in [0, 40]\ninput %x: {0}[{1}]\n%s: {0}[{2}] output = "
                                   "reduction {3} [{2}] over [{4}] "
                                   "{{ %0 = load %x[{5}] store %0 }}\noutput %s\n",
                                   type, shape, part(0, kept), kind, part(kept, dims), index));
    const std::vector<std::vector<Tensor>> inputs = {random_inputs(schedule.graph, {{"n", pick(41)}}, seed)};
    const Tensor want = run(schedule, inputs).outputs[0][0];
    passes::PassContext context = slow_memory();
    split += passes::SplitReductions{.threads = 16, .least = 1}.run(schedule, context);
    ASSERT_TRUE(verify(schedule).empty()) << print(schedule);
    // The interpreter rounds each step of a sum of halves, the parts do not.
    const double tolerance = type == "bf16"  ? 0.3
                             : type == "f16" ? 0.05
                             : type == "f32" ? 1e-5
                             : type == "f64" ? 1e-12
                                             : 0;
    EXPECT_EQ(difference(run(schedule, inputs).outputs[0][0], want, tolerance, tolerance), "")
        << print(schedule);
    passes::run_passes(schedule, passes::default_passes());
    EXPECT_EQ(difference(run(schedule, inputs, {.use_plan = true}).outputs[0][0], want, tolerance, tolerance),
              "")
        << print(schedule);
    if (HasFailure()) return;
  }
  EXPECT_GT(split, count / 4);
}

}  // namespace
}  // namespace braid::test
