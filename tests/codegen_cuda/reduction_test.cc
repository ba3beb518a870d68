#include "runtime/emulated/options.h"
#include "tests/codegen_cuda/run_case.h"

namespace braid::test {
namespace {

class EveryReduction : public CudaCase, public ::testing::WithParamInterface<const char*> {};

TEST_P(EveryReduction, FoldsAsTheInterpreterSays) {
  expect_equal(run_case("reductions_" + std::string(GetParam())), 0);
}

INSTANTIATE_TEST_SUITE_P(Reduction, EveryReduction,
                         ::testing::Values("f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8",
                                           "u16", "u32", "u64", "bool"),
                         [](const auto& info) { return std::string(info.param); });

class Reduction : public CudaCase {};

TEST_F(Reduction, RowsOfAnyLengthFold) {
  for (std::int64_t n : {1, 31, 33, 1025, 3000}) expect_equal(run_case("long_rows", {{"n", n}}), 0);
}

TEST_F(Reduction, ColumnsOfAnyLengthFold) {
  for (std::int64_t rows : {1, 7, 8, 9, 200}) {
    for (const char* type : {"f32", "f16", "u8", "i64"})
      expect_equal(run_case("column_sums_" + std::string(type), {{"rows", rows}}), 0);
    RunOptions options;
    options.integers = false;
    expect_equal(run_case("fused_columns", {{"rows", rows}}, options), 1e-5);
  }
}

TEST_F(Reduction, PartsOfSumsAreCombinedInOrder) {
  for (std::int64_t rows : {1, 7, 64, 1000, 2999, 3000}) {
    expect_equal(run_case("split_sums", {{"rows", rows}}), 0);
    RunOptions options;
    options.integers = false;
    const CaseResult once = run_case("split_sums", {{"rows", rows}}, options);
    expect_equal(once, 2e-3);
    EXPECT_EQ(once.outputs, run_case("split_sums", {{"rows", rows}}, options).outputs);  // all bits
  }
}

TEST_F(Reduction, MaximumOfNanIsNan) {
  std::vector<float> x(3 * 5 * 7, 1.0f);
  x[17] = NAN;
  RunOptions options;
  options.inputs = {{"x", ir::make_tensor(ir::DType::f32, {3, 5, 7}, x)}};
  expect_equal(run_case("reductions_f32", {}, options), 0);
}

TEST_F(Reduction, SoftmaxInOneKernel) {
  RunOptions options;
  options.integers = false;
  for (std::int64_t columns : {1, 5, 300}) {
    expect_equal(run_case("softmax_f32", {{"rows", 3}, {"columns", columns}}, options), 1e-5);
    expect_equal(run_case("softmax_f16", {{"rows", 3}, {"columns", columns}}, options), 2e-3);
    expect_equal(run_case("softmax_row", {{"rows", 3}, {"columns", columns}}, options), 1e-5);
  }
  expect_equal(run_case("softmax_unfused", {}, options), 1e-5);
}

TEST_F(Reduction, FusedNodesAreOneKernelUnlessTheirRowsAreTooLong) {
  const auto kernels = [](const std::string& name) {
    const Case c = find_case(name);
    return codegen::cuda::emit_cuda(c.build(), c.options).kernels;
  };
  EXPECT_EQ(kernels("softmax_f32"), 1);
  EXPECT_EQ(kernels("softmax_row"), 1);
  EXPECT_EQ(kernels("softmax_large_row"), 1);
  EXPECT_GT(kernels("softmax_spilled"), 1);
  EXPECT_EQ(kernels("layernorm"), 1);
}

TEST_F(Reduction, RowsThatDoNotFitInSharedMemoryGoThroughTheArena) {
  RunOptions options;
  options.integers = false;
  expect_equal(run_case("softmax_spilled", {{"rows", 3}, {"columns", 77}}, options), 1e-5);
  expect_equal(run_case("softmax_large_row", {{"rows", 1}, {"columns", 20000}}, options), 1e-5);
}

// As create chooses on devices with more and with less of it.
TEST_F(Reduction, RowsInSharedAndInGlobalMemoryHaveTheSameBits) {
  RunOptions options;
  options.integers = false;
  options.steps = 2;
  struct Form {
    const char* name;
    std::int64_t rows, columns;
    std::size_t little;  // shared memory in which the rows have no room
    double tolerance;
  };
  // The second has more rows than blocks that spill.
  for (const Form& form : {Form{"softmax_two_variants", 1, 30000, 99 * 1024, 1e-5},
                           Form{"softmax_two_variants_f16", 300, 100, 2048 + 128, 2e-3}}) {
    const std::map<std::string, std::int64_t> dims = {{"rows", form.rows}, {"columns", form.columns}};
    const CaseResult shared = run_case(form.name, dims, options);
    expect_equal(shared, form.tolerance);
    emulated::options().shared_bytes = form.little;
    CaseResult spilled = run_case(form.name, dims, options);
    emulated::options().shared_bytes = emulated::Options().shared_bytes;
    spilled.expected = shared.outputs;
    expect_equal(spilled, 0);
  }
}

TEST_F(Reduction, LayerNormInOneKernel) {
  RunOptions options;
  options.integers = false;
  options.steps = 2;
  expect_equal(run_case("layernorm", {{"batch", 3}}, options), 1e-5);
}

TEST_F(Reduction, FusedMembersHandOverValuesAndRows) {
  expect_equal(run_case("fused_points"), 0);
  expect_equal(run_case("fused_rows_of_folds"), 0);
}

}  // namespace
}  // namespace braid::test
