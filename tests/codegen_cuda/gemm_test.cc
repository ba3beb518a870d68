#include "runtime/emulated/gemm.h"

#include <fmt/format.h>

#include <cstdlib>

#include "runtime/emulated/options.h"
#include "tests/codegen_cuda/run_case.h"

namespace braid::test {
namespace {

class EveryEpilogue : public CudaCase,
                      public ::testing::WithParamInterface<std::tuple<const char*, const char*>> {};

TEST_P(EveryEpilogue, IsAsTheInterpreterSays) {
  const auto [epilogue, type] = GetParam();
  RunOptions options;
  options.integers = false;
  const double tolerance = std::string(type) == "f32" ? 1e-5 : std::string(type) == "f16" ? 2e-3 : 1e-2;
  for (std::int64_t rows : {1, 10}) {
    expect_equal(run_case(std::string("gemm_") + epilogue + "_" + type, {{"rows", rows}}, options),
                 tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Gemm, EveryEpilogue,
    ::testing::Combine(::testing::Values("plain", "bias", "relu", "bias_gelu", "residual", "exact_gelu"),
                       ::testing::Values("f32", "f16", "bf16")),
    [](const auto& info) { return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param); });

class Gemm : public CudaCase {};

std::string source_of(const std::string& name) {
  const Case c = find_case(name);
  return codegen::cuda::emit_cuda(c.build(), c.options).body;
}

TEST_F(Gemm, WhatTheLibraryHasNeedsNoKernel) {
  EXPECT_THAT(source_of("gemm_bias_f32"), ::testing::HasSubstr(".has_bias = true"));
  EXPECT_THAT(source_of("gemm_bias_gelu_f16"), ::testing::HasSubstr("GemmEpilogue::kGelu"));
  for (const char* name : {"gemm_plain_f32", "gemm_bias_f32", "gemm_relu_f32", "gemm_bias_gelu_f16"}) {
    EXPECT_THAT(source_of(name), ::testing::Not(::testing::HasSubstr("__global__"))) << name;
  }
  // Exact GELU is another function than the library's.
  EXPECT_THAT(source_of("gemm_exact_gelu_f32"), ::testing::HasSubstr("__global__"));
  EXPECT_THAT(source_of("gemm_exact_gelu_f32"), ::testing::Not(::testing::HasSubstr("GemmEpilogue")));
}

TEST_F(Gemm, MergedProductsAreTwoCallsOfTheLibraryWhoseSlicesItReads) {
  for (const char* type : {"f32", "f16"}) {
    const std::string name = fmt::format("merged_products_{}", type);
    for (std::int64_t seq : {1, 8, 9}) expect_equal(run_case(name, {{"seq", seq}}), 0);
    const std::string source = source_of(name);
    EXPECT_THAT(source, ::testing::Not(::testing::HasSubstr("Not a product"))) << name;
    std::size_t calls = 0;
    for (std::size_t at = 0; (at = source.find("BRAID_TRY(gemm(", at)) != std::string::npos; ++at) ++calls;
    EXPECT_EQ(calls, 3u) << name;
  }
}

TEST_F(Gemm, ResultsWithOddColumnsAreCopiedFromPaddedRowsPartByPart) {
  for (std::int64_t seq : {1, 2, 3, 9}) expect_equal(run_case("padded_results", {{"seq", seq}}), 0);
  const std::string source = source_of("padded_results");
  EXPECT_THAT(source, ::testing::HasSubstr(".ldd = 16"));
  EXPECT_THAT(source, ::testing::Not(::testing::HasSubstr(".ldd = 13")));
}

// Rows of odd lengths, so that matrices of halves begin at any multiple of 2 bytes.
TEST_F(Gemm, OperandsAreViewsAndBatchesThatDoNotMerge) {
  for (const char* type : {"f32", "f16", "bf16"}) {
    for (int heads : {2, 3}) {
      for (std::int64_t batch : {1, 2, 3, 4}) {
        for (std::int64_t seq : {1, 7, 8})
          expect_equal(run_case(fmt::format("attention_products_{}_{}", heads, type),
                                {{"batch", batch}, {"seq", seq}}),
                       0);
      }
    }
  }
}

TEST_F(Gemm, LibrariesWithoutArraysOfMisalignedPointersGetSeveralCalls) {
  emulated::options().misaligned_pointers = false;
  for (std::int64_t seq : {7, 8})
    expect_equal(run_case("attention_products_3_f16", {{"batch", 4}, {"seq", seq}}), 0);
  emulated::options().misaligned_pointers = true;
}

TEST_F(Gemm, NoAlignmentOfSymbolsSendsHalvesToTheNaiveKernel) {
  for (const char* name : {"attention_products_2_f32", "attention_products_3_f16"}) {
    const std::string source = source_of(name);
    EXPECT_THAT(source, ::testing::HasSubstr(".levels = 2"));
    EXPECT_THAT(source, ::testing::Not(::testing::HasSubstr("product_kernel"))) << name;
  }
}

TEST_F(Gemm, LargeProductsOfWhatIsNoMatrixReadCopies) {
  for (const char* name : {"interleaved_products_8", "interleaved_products_40"}) {
    for (std::int64_t batch : {1, 3}) expect_equal(run_case(name, {{"batch", batch}}), 2e-3);
  }
  EXPECT_THAT(source_of("interleaved_products_8"), ::testing::HasSubstr("Not a product that"));
  EXPECT_THAT(source_of("interleaved_products_40"),
              ::testing::Not(::testing::HasSubstr("Not a product that")));
}

// An instance of a program without weights or ranks.
class Prepared {
 public:
  explicit Prepared(const std::string& name) : program_(*program_of(name)) {
    BraidCudaCreateInfo info = {};
    info.abi_version = BRAID_CUDA_ABI_VERSION;
    info.struct_size = sizeof(info);
    EXPECT_EQ(program_.create(&info, &instance_), BRAID_OK) << program_.last_error(nullptr);
  }
  ~Prepared() { program_.destroy(instance_); }
  // How many products were prepared for this size of the only dimension.
  int prepare(std::int64_t size) {
    const int before = emulated::gemm_preparations();
    EXPECT_EQ(program_.prepare(instance_, &size), BRAID_OK) << program_.last_error(instance_);
    return emulated::gemm_preparations() - before;
  }

 private:
  const BraidCudaProgram& program_;
  BraidCudaInstance* instance_ = nullptr;
};

TEST_F(Gemm, AnotherTokenPreparesOnlyTheProductsThatDependOnTheLength) {
  expect_equal(run_case("decode_products", {{"past", 5}}), 0);
  Prepared decode("decode_products");
  EXPECT_EQ(decode.prepare(7), 4);
  EXPECT_EQ(decode.prepare(8), 2);
  EXPECT_EQ(decode.prepare(9), 2);
  EXPECT_EQ(decode.prepare(8), 0);
  // The least recently used lengths are forgotten.
  for (std::int64_t past = 30; past < 30 + 1023; ++past) EXPECT_EQ(decode.prepare(past), 2);
  EXPECT_EQ(decode.prepare(8), 0);
  EXPECT_EQ(decode.prepare(7), 2);
  EXPECT_EQ(decode.prepare(1000), 0);
}

TEST_F(Gemm, TuningTimesTheLibrarysAlgorithmsOncePerProduct) {
  const int before = emulated::gemm_choices();
  Prepared("decode_products").prepare(7);
  EXPECT_EQ(emulated::gemm_choices(), before);
  ::setenv("BRAID_CUDA_TUNE", "1", 1);
  Prepared decode("decode_products");
  decode.prepare(7);
  // Each of two for its workspace, each to be timed, and the best.
  EXPECT_EQ(emulated::gemm_choices(), before + 4 * 5);
  decode.prepare(7);
  EXPECT_EQ(emulated::gemm_choices(), before + 4 * 5);
  RunOptions options;
  options.integers = false;
  expect_equal(run_case("gemm_residual_f32", {{"rows", 10}}, options), 1e-5);
  expect_equal(run_case("gemm_bias_gelu_bf16", {{"rows", 10}}, options), 1e-2);
  expect_equal(run_case("attention_products_3_f32", {{"batch", 3}, {"seq", 7}}), 0);
  ::unsetenv("BRAID_CUDA_TUNE");
}

TEST_F(Gemm, TypesThatTheLibraryLacksHaveAKernelOfTheirOwn) {
  for (const char* type : {"f64", "i32", "i8", "i64"})
    expect_equal(run_case(std::string("gemm_naive_") + type), 0);
}

// The library rounds sums to the type of the operands or not at all.
TEST_F(Gemm, ResultsOfAnotherHalfTypeAreRoundedByALoop) {
  RunOptions options;
  options.integers = false;
  for (const char* types : {"f32_f16", "f32_bf16", "f16_bf16", "bf16_f16"}) {
    const std::string name = std::string("gemm_rounded_") + types;
    expect_equal(run_case(name, {{"rows", 7}}, options), 1e-2);
    EXPECT_THAT(source_of(name), ::testing::HasSubstr("output_type = GemmType::kFloat32")) << name;
  }
}

// Random operands have more than 11 significant bits, so a product of f32 differs from one in tf32 by more
// than the order of sums changes.
TEST_F(Gemm, OperandsOfTensorFloatsAreRounded) {
  RunOptions options;
  options.integers = false;
  expect_equal(run_case("tensor_float_products", {{"rows", 7}}, options), 1e-6);
  const std::string source = source_of("tensor_float_products");
  EXPECT_THAT(source, ::testing::HasSubstr("input_type = GemmType::kTensorFloat32"));
  EXPECT_THAT(source, ::testing::Not(::testing::HasSubstr("input_type = GemmType::kFloat32")));
}

TEST_F(Gemm, ABatchOfNoMatricesTouchesNothing) { expect_equal(run_case("empty_batch"), 0); }

TEST_F(Gemm, WeightsBroadcastOperandsAndEqualProblems) {
  expect_equal(run_case("broadcast_and_weights"), 0);
  const std::string source = source_of("broadcast_and_weights");
  EXPECT_THAT(source, ::testing::HasSubstr("gemm(0, "));
  EXPECT_THAT(source, ::testing::Not(::testing::HasSubstr("gemm(2, ")));
}

}  // namespace
}  // namespace braid::test
