// Extern kernels in CUDA programs, on the emulated device.
#include <gmock/gmock.h>

#include "codegen/cuda/emit.h"
#include "ir/parser.h"
#include "passes/runner.h"
#include "tests/codegen_cuda/run_case.h"
#include "tests/support/extern_kernels.h"
#include "tests/support/user_error.h"

namespace braid::test {
namespace {

using ::testing::HasSubstr;

class Extern : public CudaCase {};

TEST_F(Extern, ProgramsCallWhatTheInterpreterCalls) {
  for (std::int64_t n : {0, 1, 5}) expect_equal(run_case("extern_views", {{"n", n}}), 0);
}

TEST_F(Extern, KernelsThatComeWithBraidEqualTheInterpreter) {
  for (std::int64_t n : {0, 5}) {
    for (std::int64_t k : {0, 1, 4, 9}) expect_equal(run_case("extern_top_k", {{"n", n}, {"k", k}}), 0);
  }
  for (std::int64_t m : {0, 1, 11}) expect_equal(run_case("extern_block_product", {{"m", m}}), 0);
  expect_equal(run_case("extern_roi_align_mean"), 1e-5);
  expect_equal(run_case("extern_roi_align_maximum"), 1e-5);
}

TEST_F(Extern, TreesHaveTheInterpretersBits) {
  for (std::uint64_t seed = 1; seed <= kTreeCases; ++seed) {
    RandomTrees trees = tree_case(seed);
    for (const std::int64_t rows : {0, 1, 9, 200}) {
      SCOPED_TRACE(rows);
      RunOptions options;
      options.inputs.emplace("k", trees.keys(rows));
      expect_equal(run_case(tree_case_name(seed), {{"n", rows}}, options), 0);
    }
  }
}

TEST_F(Extern, CallsAreOrderedWithCollectives) {
  RunOptions options;
  options.steps = 3;
  expect_equal(run_case("extern_around_a_collective", {{"n", 5}}, options), 0);
}

TEST_F(Extern, AFailureEndsTheStepAndNamesTheNode) {
  const CaseResult result = run_case("extern_fails");
  EXPECT_EQ(result.status, BRAID_LIBRARY_ERROR);
  EXPECT_THAT(result.message, HasSubstr("node '/layer/Blend': the extern kernel failed: 13 is no shift"));
}

TEST_F(Extern, AKernelWithoutASourceForTheTargetIsRefused) {
  register_extern_kernels();
  ir::Schedule schedule = ir::parse_schedule(
      "graph g\ninput %x: f32[2]\n"
      "%y: f32[2] = extern \"host_only\" reads(%x)\noutput %y");
  passes::run_passes(schedule, passes::parse_pass_list("plan_memory"));
  EXPECT_THAT(error_of([&] { codegen::cuda::emit_cuda(schedule); }),
              ::testing::AllOf(HasSubstr("BR0640"),
                               HasSubstr("extern kernel 'host_only', which has no source for this target")));
}

}  // namespace
}  // namespace braid::test
