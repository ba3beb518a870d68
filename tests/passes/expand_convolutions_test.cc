// Random convolutions with loops around them compute the same as products.
#include "passes/expand_convolutions.h"

#include <gtest/gtest.h>

#include "ir/interpreter.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/default_passes.h"
#include "passes/runner.h"
#include "tests/support/close.h"
#include "tests/support/random.h"
#include "tests/support/random_tensors.h"
#include "tests/support/random_windows.h"

namespace braid::test {
namespace {

using namespace ir;

int convolutions(const Schedule& schedule) {
  int count = 0;
  for (OpId op : execution_order(schedule)) count += schedule.graph[op].as<Convolution>() != nullptr;
  return count;
}

// The inputs that convolutions read as weights become constants.
void make_weights_constant(Schedule& schedule, std::vector<std::vector<Tensor>>& inputs) {
  Graph& graph = schedule.graph;
  std::vector<GraphInput> left;
  std::vector<Tensor> values;
  for (std::size_t k = 0; k < graph.inputs.size(); ++k) {
    const BufferId id = graph.inputs[k].buffer;
    const bool weights = std::any_of(graph.ops.begin(), graph.ops.end(), [&](const Operation& op) {
      const auto* convolution = op.as<Convolution>();
      return convolution != nullptr && convolution->b.buffer == id;
    });
    if (weights) {
      graph[graph[id].storage].kind = StorageKind::constant;
      graph[graph[id].storage].data = own_bytes(inputs[0][k].bytes);
    } else {
      left.push_back(graph.inputs[k]);
      values.push_back(inputs[0][k]);
    }
  }
  graph.inputs = std::move(left);
  inputs[0] = std::move(values);
}

TEST(ExpandConvolutions, KeepsTheMeaningOfRandomPrograms) {
  constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16};
  int before = 0, transposed_with_epilogue = 0;
  const int count = random_cases(200);
  for (int k = 0; k < count; ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE("seed " + std::to_string(seed));
    const DType type = kTypes[seed % 3];
    RandomWindows program = random_windows(seed, type);
    std::vector<std::vector<Tensor>> inputs = {
        random_inputs(program.schedule.graph, program.dims, seed, true)};
    if (seed % 4 == 0) make_weights_constant(program.schedule, inputs);
    const auto want = run(program.schedule, inputs).outputs[0];
    Schedule schedule = program.schedule;
    if (seed % 2 == 0) passes::run_passes(schedule, passes::parse_pass_list("choose_layouts"));
    if (seed % 5 == 0) passes::run_passes(schedule, passes::parse_pass_list("fuse_epilogues,name_post_ops"));
    const int given = convolutions(schedule);
    before += given;
    passes::ExpandConvolutions pass;
    pass.min_terms = 0;
    if (seed % 6 == 0) pass.window_bytes = static_cast<std::int64_t>(64 + seed % 500);
    const bool changed = pass.run(schedule);
    ASSERT_EQ(changed, convolutions(schedule) < given) << print(schedule);
    for (OpId op : execution_order(schedule)) {
      const auto* left = schedule.graph[op].as<Convolution>();
      if (left == nullptr) continue;
      EXPECT_TRUE(left->transposed && left->epilogue) << print(schedule);
      ++transposed_with_epilogue;
    }
    EXPECT_TRUE(verify(schedule).empty()) << print(schedule);
    const double tolerance = type == DType::f32 ? 1e-5 : type == DType::f16 ? 4e-3 : 3e-2;
    const auto expect_want = [&](const std::vector<Tensor>& got) {
      for (std::size_t o = 0; o < want.size(); ++o) expect_close(got[o], want[o], tolerance, print(schedule));
    };
    expect_want(run(schedule, inputs).outputs[0]);
    passes::run_passes(schedule, passes::default_passes());
    expect_want(run(schedule, inputs, {.use_plan = true}).outputs[0]);
    if (HasFailure()) return;
  }
  EXPECT_GT(before, count / 2);
  EXPECT_LT(transposed_with_epilogue, before / 4);
}

}  // namespace
}  // namespace braid::test
