// Matrix products of the C++ target against the interpreter: operands, types, epilogues, shapes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/codegen/compiled.h"

namespace braid::test {
namespace {

struct Epilogue {
  const char* name;
  const char* inputs;
  const char* body;
  std::vector<std::string> ops;  // as recognised
};

const std::vector<Epilogue>& epilogues() {
  static const std::vector<Epilogue> all = {
      {"bias",
       "constant %b: f32[80] = splat(0.0)",
       "%0 = acc f32 %1 = load %b[i1] %2 = add %0, %1 return %2",
       {"add_vector"}},
      {"relu", "", "%0 = acc f32 %1 = constant f32 0 %2 = max %0, %1 return %2", {"relu"}},
      {"residual",
       "input %r: f32[n, 80]",
       "%0 = acc f32 %1 = load %r %2 = add %1, %0 return %2",
       {"add_matrix"}},
      {"scale_bias",
       "constant %b: f32[80] = splat(0.0)",
       "%0 = acc f32 %1 = constant f32 0.125 %2 = mul %1, %0 %3 = load %b[i1] %4 = add %2, %3 return %4",
       {"scale", "add_vector"}},
      {"bias_gelu_tanh",
       "constant %b: f32[80] = splat(0.0)",
       "%0 = acc f32 %1 = load %b[i1] %2 = add %0, %1 %3 = mul %2, %2 %4 = mul %3, %2 %5 = constant f32 "
       "0.044715 %6 = mul %5, %4 %7 = add %2, %6 "
       "%8 = constant f32 0.7978846 %9 = mul %8, %7 %10 = tanh %9 %11 = constant f32 1 %12 = add %11, %10 "
       "%13 = mul %2, %12 %14 = constant f32 0.5 "
       "%15 = mul %13, %14 return %15",
       {"add_vector", "gelu_tanh"}},
      {"bias_gelu_erf",
       "constant %b: f32[80] = splat(0.0)",
       "%0 = acc f32 %1 = load %b[i1] %2 = add %0, %1 %3 = constant f32 0.70710678 %4 = mul %2, %3 %5 = erf "
       "%4 %6 = constant f32 1 %7 = add %5, %6 "
       "%8 = constant f32 0.5 %9 = mul %2, %8 %10 = mul %9, %7 return %10",
       {"add_vector", "gelu_erf"}},
      {"sigmoid", "", "%0 = acc f32 %1 = sigmoid %0 return %1", {"sigmoid"}},
      {"tanh_residual",
       "input %r: f32[n, 80]",
       "%0 = acc f32 %1 = tanh %0 %2 = load %r %3 = add %2, %1 return %3",
       {"tanh", "add_matrix"}},
  };
  return all;
}

class CppGemm : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    compiled_ = std::make_unique<Compiled>();
    Compiled& c = *compiled_;
    for (const Epilogue& e : epilogues()) {
      c.add(e.name,
            fmt::format(
                "graph main dim n in [1, 40] input %x: f32[n, 48] constant %w: f32[48, 80] = splat(0.0) {} "
                "%y: f32[n, 80] = gemm %x, %w epilogue {{ {} }} output %y",
                e.inputs, e.body));
    }
    // Not what the library does: a loop after the product.
    c.add("odd_epilogue",
          "graph main dim n in [1, 40] input %x: f32[n, 48] constant %w: f32[48, 80] = splat(0.0) input %r: "
          "f32[n] "
          "%y: f32[n, 80] = gemm %x, %w epilogue { %0 = acc f32 %1 = load %r[i0] %2 = mul %0, %1 %3 = sin %2 "
          "return %3 } output %y");
    c.add("capped",
          "graph main dim n in [1, 40] input %x: f32[n, 48] constant %w: f32[48, 80] = splat(0.0) "
          "%y: f32[n, 80] = gemm %x, %w epilogue { %0 = acc f32 %1 = constant f32 0 %2 = max %0, %1 "
          "%3 = constant f32 10 %4 = min %2, %3 return %4 } output %y");
    c.add("bf16_out",
          "graph main dim n in [1, 40] input %x: f32[n, 48] constant %w: f32[48, 80] = splat(0.0) "
          "%y: bf16[n, 80] = gemm %x, %w epilogue { %0 = acc f32 %1 = cast bf16 %0 return %1 } output %y");
    c.add("plain",
          "graph main dim n in [1, 40] input %x: f32[n, 48] input %w: f32[48, 80] %y: f32[n, 80] = gemm %x, "
          "%w output %y");
    c.add("weights",
          "graph main dim n in [1, 40] input %x: f32[n, 48] constant %w: f32[48, 80] = splat(0.0) %y: f32[n, "
          "80] = gemm %x, %w output %y");
    c.add("weights_transposed",
          "graph main dim n in [1, 40] input %x: f32[n, 48] constant %w: f32[80, 48] = splat(0.0) "
          "%y: f32[n, 80] = gemm %x, transpose(%w) output %y");
    c.add("a_transposed",
          "graph main dim n in [1, 40] input %x: f32[48, n] input %w: f32[48, 80] %y: f32[n, 80] = gemm "
          "transpose(%x), %w output %y");
    c.add("batched",
          "graph main dim n in [1, 40] input %x: f32[3, n, 48] input %w: f32[3, 48, n] %y: f32[3, n, n] = "
          "gemm %x, %w output %y");
    c.add("shared_b",
          "graph main dim n in [1, 40] input %x: f32[3, n, 48] constant %w: f32[48, 20] = splat(0.0) "
          "%y: f32[3, n, 20] = gemm %x, %w at 0 [3, 48, 20] strides [0, 20, 1] output %y");
    // Heads inside of one row, as attention has them.
    c.add("heads",
          "graph main dim n in [1, 40] input %q: f32[n, 4, 16] input %k: f32[n, 4, 16] "
          "%y: f32[4, n, n] = gemm %q at 0 [4, n, 16] strides [16, 64, 1], %k at 0 [4, 16, n] strides [16, "
          "1, 64] output %y");
    // Large enough for threads, and for panels in slices.
    c.add("tall",
          "graph main dim n in [1, 300] input %x: f32[n, 64] constant %w: f32[64, 100] = splat(0.0) constant "
          "%b: f32[100] = splat(0.0) "
          "%y: f32[n, 100] = gemm %x, %w epilogue { %0 = acc f32 %1 = load %b[i1] %2 = add %0, %1 return %2 "
          "} output %y");
    c.add("deep",
          "graph main dim n in [1, 300] input %x: f32[n, 5000] constant %w: f32[5000, 13] = splat(0.0) "
          "constant %b: f32[13] = splat(0.0) "
          "%y: f32[n, 13] = gemm %x, %w epilogue { %0 = acc f32 %1 = load %b[i1] %2 = add %0, %1 return %2 } "
          "output %y");
    c.add("deep_unpacked",
          "graph main dim n in [1, 300] input %x: f32[n, 5000] input %w: f32[70, 5000] %y: f32[n, 70] = gemm "
          "%x, transpose(%w) output %y");
    c.add("wide_row",
          "graph main dim n in [1, 9] input %x: f32[n, 300] input %w: f32[300, 1500] input %r: f32[n, 1500] "
          "%y: f32[n, 1500] = gemm %x, %w epilogue { %0 = acc f32 %1 = load %r %2 = add %0, %1 return %2 } "
          "output %y");
    for (const char* type : {"f64", "f16", "bf16", "i32", "i64", "i8", "u8"}) {
      c.add(std::string("type_") + type, fmt::format("graph main dim n in [1, 40] input %x: {0}[n, 12] input "
                                                     "%w: {0}[12, 20] %y: {0}[n, 20] = gemm %x, %w output %y",
                                                     type));
    }
    c.build();
  }
  static void TearDownTestSuite() { compiled_.reset(); }
  static Compiled& compiled() { return *compiled_; }
  static inline std::unique_ptr<Compiled> compiled_;
};

TEST_F(CppGemm, EpiloguesAreLeftToTheLibrary) {
  for (const Epilogue& e : epilogues()) {
    std::string want;
    for (std::size_t k = 0; k < e.ops.size(); ++k)
      want += fmt::format("  s.epilogue.ops[{}] = PostOp::{};\n", k, e.ops[k]);
    EXPECT_THAT(compiled().emitted(e.name).source, ::testing::HasSubstr(want)) << e.name;
  }
  EXPECT_THAT(compiled().emitted("odd_epilogue").source, ::testing::Not(::testing::HasSubstr("PostOp::")));
}

// min(max(x, 0), 10) is the ReLU of everything up to 10: the product has the ReLU, a loop the rest.
TEST_F(CppGemm, CappedActivationIsCapped) {
  const std::string source = compiled().emitted("capped").source;
  EXPECT_THAT(source, ::testing::HasSubstr("  s.epilogue.ops[0] = PostOp::relu;\n  return s;\n"));
  EXPECT_THAT(source, ::testing::HasSubstr("vmin<float>(t0, 10.0f)"));
  for (int n : {1, 5}) compiled().expect_like_interpreter("capped", {{"n", n}}, 2e-5);
}

TEST_F(CppGemm, EpiloguesComputeWhatTheInterpreterDoes) {
  for (const Epilogue& e : epilogues()) {
    for (int n : {1, 2, 3, 40}) compiled().expect_like_interpreter(e.name, {{"n", n}}, 2e-5);
  }
  for (int n : {1, 5}) {
    compiled().expect_like_interpreter("odd_epilogue", {{"n", n}}, 2e-5);
    compiled().expect_like_interpreter("bf16_out", {{"n", n}}, 1e-2);
  }
}

TEST_F(CppGemm, OperandsOfEveryLayout) {
  for (const char* name :
       {"plain", "weights", "weights_transposed", "a_transposed", "batched", "shared_b", "heads"}) {
    for (int n : {1, 2, 3, 17, 40}) compiled().expect_like_interpreter(name, {{"n", n}}, 2e-5);
  }
}

TEST_F(CppGemm, LargeEnoughForThreadsAndSlices) {
  for (int n : {1, 7, 300}) compiled().expect_like_interpreter("tall", {{"n", n}}, 5e-5);
  for (int n : {1, 9}) {
    compiled().expect_like_interpreter("deep", {{"n", n}}, 5e-4);
    compiled().expect_like_interpreter("deep_unpacked", {{"n", n}}, 5e-4);
    compiled().expect_like_interpreter("wide_row", {{"n", n}}, 5e-5);
  }
}

TEST_F(CppGemm, TypesWithoutALibraryGoThroughLoops) {
  for (const char* type : {"f64", "f16", "bf16", "i32", "i64", "i8", "u8"}) {
    for (int n : {1, 9})
      compiled().expect_like_interpreter(std::string("type_") + type, {{"n", n}},
                                         type[0] == 'b'   ? 2e-2
                                         : type[0] == 'f' ? 2e-3
                                                          : 0);
  }
}

}  // namespace
}  // namespace braid::test
