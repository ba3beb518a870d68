// Reductions of the C++ target against the interpreter: kinds, types, axes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/codegen/compiled.h"
#include "tests/support/compute_threads.h"

namespace braid::test {
namespace {

const std::vector<std::string> kTypes = {"f32", "f64", "f16", "bf16", "i8",  "i16",
                                         "i32", "i64", "u8",  "u16",  "u32", "u64"};

class CppReductions : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    compiled_ = std::make_unique<Compiled>();
    for (const std::string& type : kTypes) {
      std::string text = fmt::format("graph main dim n in [0, 50] input %x: {}[3, n]\n", type), outputs;
      for (const char* kind : {"sum", "prod", "max", "min"}) {
        text +=
            fmt::format("%{0}: {1}[3] = reduction {0} over [n] {{ %0 = load %x store %0 }}\n", kind, type);
        outputs += fmt::format("output %{}\n", kind);
      }
      compiled_->add("rows_" + type, text + outputs);
    }
    Compiled& c = *compiled_;
    c.add("bool",
          "graph main dim n in [1, 50] input %x: bool[3, n] %a: bool[3] = reduction max over [n] { %0 = load "
          "%x store %0 } "
          "%b: bool[3] = reduction min over [n] { %0 = load %x store %0 } output %a output %b");
    // Over the first axis: a tile of results side by side.
    c.add("columns",
          "graph main dim n in [1, 50] input %x: f32[n, 150] %y: f32[150] = reduction sum over [n] { %0 = "
          "load %x[150*i1 + i0] store %0 } output %y");
    // The loop that follows works on the tile of results: one tile as wide as the results, several tiles, or
    // an unknown number.
    for (const int columns : {5, 24, 96, 150, 700}) {
      c.add(fmt::format("mean_of_columns_{}", columns),
            fmt::format(
                "graph main dim n in [1, 50] input %x: f32[n, {0}] %s: f32[{0}] = reduction sum over [n] {{ "
                "%0 = load %x[{0}*i1 + i0] store %0 }} %y: f32[{0}] = pointwise {{ %0 = load %s %1 = "
                "constant f32 0.125 %2 = mul %0, %1 store %2 }} output %y",
                columns));
    }
    c.add("mean_of_columns",
          "graph main dim n in [1, 50] dim m in [1, 99] input %x: f32[n, m] %s: f32[m] = reduction sum over "
          "[n] { "
          "%0 = load %x[m*i1 + i0] store %0 } %y: f32[m] = pointwise { %0 = load %s %1 = constant f32 0.125 "
          "%2 = "
          "mul %0, %1 store %2 } output %y");
    c.add("columns_max",
          "graph main dim n in [1, 50] input %x: f32[n, 150] %y: f32[150] = reduction max over [n] { %0 = "
          "load %x[150*i1 + i0] store %0 } output %y");
    c.add("middle",
          "graph main dim n in [1, 50] input %x: f32[4, n, 70] %y: f32[4, 70] = reduction sum over [n] { %0 "
          "= load %x[70*n*i0 + 70*i2 + i1] store %0 } output %y");
    c.add("all",
          "graph main dim n in [1, 50] input %x: f32[4, n, 7] %y: f32[] = reduction sum over [4, n, 7] { %0 "
          "= load %x store %0 } output %y");
    c.add("two_axes",
          "graph main dim n in [1, 50] input %x: f32[4, 5, n] %y: f32[5] = reduction sum over [4, n] { %0 = "
          "load %x[5*n*i1 + n*i0 + i2] store %0 } output %y");
    c.build();
  }
  static void TearDownTestSuite() { compiled_.reset(); }
  static inline std::unique_ptr<Compiled> compiled_;
};

TEST_F(CppReductions, EveryKindAndTypeAlongRowsAlsoEmptyOnes) {
  for (const std::string& type : kTypes) {
    for (int n : {0, 1, 5, 50})
      compiled_->expect_like_interpreter("rows_" + type, {{"n", n}},
                                         type == "f16"    ? 4e-3
                                         : type == "bf16" ? 3e-2
                                         : type[0] == 'f' ? 1e-5
                                                          : 0);
  }
  compiled_->expect_like_interpreter("bool", {{"n", 3}}, 0);
}

TEST_F(CppReductions, OverOtherAxes) {
  for (const char* name : {"columns", "columns_max", "middle", "all", "two_axes"}) {
    for (int n : {1, 9, 50}) compiled_->expect_like_interpreter(name, {{"n", n}}, 2e-5);
  }
}

TEST_F(CppReductions, OfColumnsWithWhatFollows) {
  for (const int n : {1, 50}) {
    for (const int columns : {5, 24, 96, 150, 700})
      compiled_->expect_like_interpreter(fmt::format("mean_of_columns_{}", columns), {{"n", n}}, 2e-5);
    for (const int m : {1, 64, 99})
      compiled_->expect_like_interpreter("mean_of_columns", {{"n", n}, {"m", m}}, 2e-5);
  }
}

TEST_F(CppReductions, NaNWinsInMaxAndMin) {
  std::vector<float> x(3 * 50, 1.0f);
  x[7] = NAN;
  x[60] = -NAN;
  x[110] = -INFINITY;
  compiled_->expect_like_interpreter_on("rows_f32", {ir::make_tensor(ir::DType::f32, {3, 50}, x)}, 1e-5);
}

// Whole reductions have no outer loop, and enough to do for several threads; integers and extremes have the
// same bits in any order.
TEST(CppWholeReductions, OnSeveralThreads) {
  Compiled compiled;
  std::vector<std::string> names;
  const auto add = [&](const std::string& type, const std::string& kind) {
    names.push_back(fmt::format("{}_{}", kind, type));
    compiled.add(
        names.back(),
        fmt::format("graph main dim n in [1, 5000] input %x: {0}[n, 200] input %b: {0}[200] "
                    "%flat: {0}[] = reduction {1} [] over [n, 200] {{ %0 = load %x[200*i0 + i1] store %0 }} "
                    "%y: {0}[] = reduction {1} [] over [n, 200] {{ %0 = load %x[200*i0 + i1] %1 = load "
                    "%b[i1] %2 = {2} %0, %1 "
                    "store %2 }} output %flat output %y",
                    type, kind, type == "bool" ? "or" : "add"));
  };
  for (const char* type : {"f32", "f64", "i32", "u8", "i64", "bool"}) {
    for (const char* kind : {"max", "min"}) add(type, kind);
  }
  for (const char* type : {"i32", "u8", "i64"}) add(type, "sum");
  compiled.build();
  EXPECT_NE(compiled.emitted("sum_i32").source.find("MergingLock"), std::string::npos);
  for (const int threads : {1, 2, 3}) {
    const ComputeThreads threads_of_case(threads);
    for (const std::string& name : names) {
      for (const int n : {1, 300}) compiled.expect_like_interpreter(name, {{"n", n}}, 0, 7);
    }
    // So much that threads work at the same time.
    for (const char* name : {"sum_i32", "sum_i64", "max_f32"})
      compiled.expect_like_interpreter(name, {{"n", 5000}}, 0, 7);
  }
}

// Threads share the iterations of the two outer loops, of which the first one may have one.
TEST(CppWholeReductions, OverTwoOpenLoops) {
  Compiled compiled;
  for (const char* kind : {"max", "sum"}) {
    compiled.add(kind, fmt::format("graph main dim n in [1, 9] dim m in [2, 400] input %x: i32[n, m - 1, 64] "
                                   "input %b: i32[64, m] %y: i32[] = reduction {} [] over [n, m - 1, 64] {{ "
                                   "%0 = load %x[64*m*i0 - 64*i0 + 64*i1 + i2] %1 = load %b[m*i2 + i1] "
                                   "%2 = mul %0, %1 store %2 }} output %y",
                                   kind));
  }
  compiled.build();
  EXPECT_NE(compiled.emitted("sum").source.find("part % (dim_m - 1)"), std::string::npos);
  for (const int threads : {1, 3}) {
    const ComputeThreads threads_of_case(threads);
    for (const char* kind : {"max", "sum"}) {
      for (const int n : {1, 4}) {
        for (const int m : {2, 400}) compiled.expect_like_interpreter(kind, {{"n", n}, {"m", m}}, 0, 7);
      }
    }
  }
}

// One loop that stores its elements and adds them up. Sums of floats are not cut: their bits would depend on
// where.
TEST(CppWholeReductions, OfAFusedLoopAreSharedIfTheyAreExact) {
  Compiled compiled;
  for (const char* type : {"f32", "i32"}) {
    compiled.add(type,
                 fmt::format("graph main input %x: {0}[100000] fused k {{ %y: {0}[100000] output = "
                             "pointwise {{ %0 = load %x %1 = mul %0, %0 store %1 }} "
                             "%s: {0}[] output = reduction sum [] over [100000] {{ %0 = load %y[i0] store %0 "
                             "}} }} output %y output %s",
                             type));
  }
  compiled.build();
  EXPECT_EQ(compiled.emitted("f32").source.find("parallel_for"), std::string::npos);
  EXPECT_NE(compiled.emitted("i32").source.find("MergingLock"), std::string::npos);
  for (const int threads : {1, 2, 3}) {
    const ComputeThreads threads_of_case(threads);
    compiled.expect_like_interpreter("i32", {}, 0, 7);
  }
}

}  // namespace
}  // namespace braid::test
