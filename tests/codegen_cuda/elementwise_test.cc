#include "tests/codegen_cuda/run_case.h"

namespace braid::test {
namespace {

class EveryType : public CudaCase, public ::testing::WithParamInterface<const char*> {};

// Math functions may differ in their last bits; the rounding of a half type then shows a whole step of it.
double tolerance_of(const std::string& type) {
  return type == "f32" ? 1e-5 : type == "f64" ? 1e-12 : type == "f16" ? 2e-3 : type == "bf16" ? 1e-2 : 0;
}

TEST_P(EveryType, EveryOpcodeIsAsTheInterpreterSays) {
  const std::string type = GetParam();
  expect_equal(run_case("opcodes_" + type), tolerance_of(type));
}

INSTANTIATE_TEST_SUITE_P(Elementwise, EveryType,
                         ::testing::Values("f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8",
                                           "u16", "u32", "u64", "bool"),
                         [](const auto& info) { return std::string(info.param); });

class EveryLiteral : public CudaCase, public ::testing::WithParamInterface<const char*> {};

TEST_P(EveryLiteral, IsExact) { expect_equal(run_case("literals_" + std::string(GetParam())), 0); }

INSTANTIATE_TEST_SUITE_P(Elementwise, EveryLiteral,
                         ::testing::Values("f32", "f64", "f16", "bf16", "i32", "i64"),
                         [](const auto& info) { return std::string(info.param); });

class Elementwise : public CudaCase {};

TEST_F(Elementwise, TransposesOfAnySizesGoThroughTiles) {
  constexpr std::pair<std::int64_t, std::int64_t> kSizes[] = {{1, 1},     {1, 150},  {150, 1},
                                                              {128, 128}, {77, 130}, {64, 8}};
  for (const auto& [a, b] : kSizes) {
    for (const char* type : {"u8", "f16", "f32", "f64"})
      expect_equal(run_case("transposes_" + std::string(type), {{"a", a}, {"b", b}}), 0);
  }
}

TEST_F(Elementwise, NanAndInfinityPassThroughEveryOpcode) {
  const auto tensor = [](std::vector<std::int64_t> sizes, std::vector<float> v) {
    return ir::make_tensor(ir::DType::f32, std::move(sizes), v);
  };
  std::vector<float> x, special = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1.0f, -2.5f, 3e38f};
  for (int row = 0; row < 3; ++row) {
    for (int k = 0; k < 8; ++k) x.push_back(special[static_cast<std::size_t>((k + row) % 8)]);
  }
  RunOptions options;
  options.inputs = {{"x", tensor({3, 8}, x)}, {"y", tensor({8}, special)}};
  expect_equal(run_case("opcodes_f32", {}, options), 1e-5);
}

TEST_F(Elementwise, ViewsPaddingAndDynamicSizesAreIndexedRight) {
  for (std::int64_t n : {1, 4, 9}) expect_equal(run_case("indexing", {{"n", n}}), 0);
}

TEST_F(Elementwise, OutputsAreCopiedIntoTheirOwnMemory) {
  for (std::int64_t n : {0, 1, 5}) expect_equal(run_case("outputs_to_copy", {{"n", n}}), 0);
}

TEST_F(Elementwise, OneProgramServesAllSizesAndStreams) {
  RunOptions options;
  options.own_stream = true;
  options.steps = 3;
  expect_equal(run_case("indexing", {{"n", 5}}, options), 0);
}

TEST_F(Elementwise, IndicesOfMoreThan32BitsAndGuards) {
  expect_equal(run_case("wide_and_guarded", {{"n", 5}, {"m", 4}}), 0);
  const CaseResult wrong = run_case("wide_and_guarded", {{"n", 5}, {"m", 5}});
  EXPECT_EQ(wrong.status, BRAID_BAD_SIZE);
  EXPECT_THAT(wrong.message, ::testing::HasSubstr("does not hold"));
  const CaseResult outside = run_case("wide_and_guarded", {{"n", 102}, {"m", 101}});
  EXPECT_EQ(outside.status, BRAID_BAD_SIZE);
  EXPECT_THAT(outside.message, ::testing::HasSubstr("dimension 'm' is 101"));
}

TEST_F(Elementwise, GatherReadsTheRowsThatTheIndicesName) {
  RunOptions options;
  options.inputs = {{"ids", ir::make_tensor(ir::DType::i64, {5}, std::vector<std::int64_t>{9, 0, 3, 3, 7})}};
  expect_equal(run_case("gather", {}, options), 0);
}

TEST_F(Elementwise, AnIndexOutOfRangeFailsTheStepAndNamesTheNode) {
  for (std::int64_t bad : {std::int64_t{10}, std::int64_t{-1}, INT64_MAX}) {
    RunOptions options;
    options.inputs = {
        {"ids", ir::make_tensor(ir::DType::i64, {5}, std::vector<std::int64_t>{1, bad, 3, 3, 7})}};
    const CaseResult result = run_case("gather", {}, options);
    EXPECT_EQ(result.status, BRAID_BAD_INDEX);
    EXPECT_THAT(result.message, ::testing::HasSubstr("/embed/Gather"));
  }
}

}  // namespace
}  // namespace braid::test
