// Copies that read along other dimensions than they write, and at indices that wrap, turn around or repeat,
// against the interpreter: sizes below, at and beyond those of blocks and vectors.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/cpp/emit.h"
#include "tests/codegen/compiled.h"

namespace braid::test {
namespace {

class CppCopies : public ::testing::Test {
 protected:
  static void SetUpTestSuite();
  static void TearDownTestSuite() { compiled_.reset(); }
  static Compiled& compiled() { return *compiled_; }
  static inline std::unique_ptr<Compiled> compiled_;
};

constexpr const char* kTypes[] = {"f32", "f64", "f16", "i8", "bool", "i64"};

// Written like rows of a table: y[i0, i1] of a loop over both dimensions.
std::string copy_of(const char* type, const char* from, const char* to, const char* index) {
  return fmt::format(
      "graph main dim n in [1, 150] dim m in [1, 150] input %x: {0}[{1}] input %size: f32[n, m] "
      "%y: {0}[{2}] = pointwise {{ %0 = load %x[{3}] store %0 }} output %y output %size",
      type, from, to, index);
}

// A transposition with arithmetic, and one beside an operand that is read in order.
constexpr const char* kTransposedSum = R"(graph main
dim n in [1, 150] dim m in [1, 150]
input %x: f32[n, m] input %z: f32[m, n]
%y: f32[m, n] = pointwise { %0 = load %x[m*i1 + i0] %1 = load %z %2 = add %0, %1 %3 = abs %2 store %3 }
output %y)";

// Several elements of narrower and wider types than the result.
constexpr const char* kTransposedChoice = R"(graph main
dim n in [1, 150] dim m in [1, 150]
input %b: bool[n, m] input %h: f16[n, m] input %q: i64[n, m]
%y: f32[m, n] = pointwise { %0 = load %b[m*i1 + i0] %1 = load %h[m*i1 + i0] %2 = load %q[m*i1 + i0] %3 = cast f32 %1 %4 = cast f32 %2 %5 = where %0, %3, %4 store %5 }
output %y)";

constexpr const char* kFixed = R"(graph main
input %x: f32[3, 37, 70] input %b: u8[64, 48]
%y: f32[3, 70, 37] = pointwise { %0 = load %x[2590*i0 + 70*i2 + i1] store %0 }
%z: u8[48, 64] = pointwise { %0 = load %b[48*i1 + i0] store %0 }
%t: f32[6, 74, 140] = pointwise { %0 = load %x[2590*mod(i0, 3) + 70*mod(i1, 37) + mod(i2, 70)] store %0 }
%s: f32[3, 74, 140] = pointwise { %0 = load %x[2590*i0 + 70*floordiv(i1, 2) + floordiv(i2, 2)] store %0 }
%r: f32[3, 37, 74] = pointwise { %0 = load %x[2590*i0 + 70*i1 + min(mod(i2 + 136, 138), 138 - mod(i2 + 136, 138))] store %0 }
%u: f32[3, 37, 100] = pointwise { %0 = load %x[2590*i0 + 70*i1 + floordiv(7*i2, 10)] store %0 }
%h: f16[3, 37, 70] = pointwise { %0 = load %x %1 = cast f16 %0 store %1 }
%g: bf16[3, 37, 70] = pointwise { %0 = load %x %1 = cast bf16 %0 %2 = mul %1, %1 store %2 }
output %y output %z output %t output %s output %r output %u output %h output %g)";

// More transposed loads than blocks fit on the stack.
std::string many_transposed() {
  std::string inputs, body = "%0 = load %z ", sum = "%0";
  for (int k = 0; k < 40; ++k) {
    inputs += fmt::format("input %x{}: f64[64, 64] ", k);
    body += fmt::format("%{} = load %x{}[64*i1 + i0] %{} = add {}, %{} ", 2 * k + 1, k, 2 * k + 2, sum,
                        2 * k + 1);
    sum = fmt::format("%{}", 2 * k + 2);
  }
  return fmt::format(
      "graph main\n{}input %z: f64[64, 64]\n%y: f64[64, 64] = pointwise {{ {}store {} }}\noutput %y", inputs,
      body, sum);
}

// %b reads halves of %a in another order, so that it is a kernel of its own with two loops.
constexpr const char* kHalves =
    "graph main\ndim n in [1, 8] dim m in [1, 1200]\ninput %x: f32[n, m]\ninput %h: f16[n, m]\n"
    "%a: f16[n, m] = pointwise { %0 = load %x %1 = load %h %2 = cast f32 %1 %3 = mul %0, %2 %4 = cast f16 %3"
    " store %4 }\n"
    "%b: f16[n, m] = pointwise { %0 = load %a[m*i0 + m - 1 - i1] %1 = neg %0 store %1 }\n"
    "%c: f32[n, m] = pointwise { %0 = load %b %1 = cast f32 %0 %2 = load %x %3 = add %1, %2 store %3 }\n"
    "output %a output %b output %c";

void CppCopies::SetUpTestSuite() {
  compiled_ = std::make_unique<Compiled>();
  for (const char* type : kTypes)
    compiled_->add(fmt::format("transpose_{}", type), copy_of(type, "n, m", "m, n", "m*i1 + i0"));
  compiled_->add("rows_apart", copy_of("f32", "3, n, m", "m, 3, n", "n*m*i1 + m*i2 + i0"));
  compiled_->add("tile", copy_of("f32", "n, m", "2*n, 3*m", "m*mod(i0, n) + mod(i1, m)"));
  compiled_->add("repeat", copy_of("f32", "n, m", "n, 3*m", "m*i0 + floordiv(i1, 3)"));
  compiled_->add("clamp", copy_of("f32", "n, m", "n, m + 4", "m*i0 + min(max(i1 - 2, 0), m - 1)"));
  compiled_->add("transposed_sum", kTransposedSum);
  compiled_->add("transposed_choice", kTransposedChoice);
  compiled_->add("many_transposed", many_transposed());
  compiled_->add("fixed", kFixed);
  compiled_->add("halves", kHalves);
  compiled_->build();
}

TEST_F(CppCopies, BlocksAndTheirEdges) {
  for (const int n : {1, 3, 8, 16, 67, 150}) {
    for (const int m : {1, 7, 16, 64, 65, 131}) {
      SCOPED_TRACE(fmt::format("{} x {}", n, m));
      for (const char* type : kTypes)
        compiled().expect_like_interpreter(fmt::format("transpose_{}", type), {{"n", n}, {"m", m}}, 0);
      for (const char* name :
           {"rows_apart", "tile", "repeat", "clamp", "transposed_sum", "transposed_choice"})
        compiled().expect_like_interpreter(name, {{"n", n}, {"m", m}}, 0);
    }
  }
}

// Strips of 256 halves and their ends, in one loop and in two, beside other stores and in place.
TEST_F(CppCopies, HalvesAndTheirStrips) {
  for (const int n : {1, 2, 5}) {
    for (const int m : {1, 7, 8, 255, 256, 257, 519, 1100}) {
      SCOPED_TRACE(fmt::format("{} x {}", n, m));
      compiled().expect_like_interpreter("halves", {{"n", n}, {"m", m}}, 0);
    }
  }
}

TEST_F(CppCopies, FixedSizes) {
  compiled().expect_like_interpreter("fixed", {}, 0);
  compiled().expect_like_interpreter("many_transposed", {}, 0);
}

std::string source_of(const std::string& text) {
  return codegen::cpp::emit_cpp(schedule_of(text, "fuse_vertical,fuse_horizontal,merge_loops,plan_memory"))
      .source;
}

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

// Blocks of 8 rows of 64 doubles have 4 KiB.
TEST(CppLoopTexts, TransposedBlocksKeepToTheStacksBudget) {
  EXPECT_EQ(count_of(source_of(many_transposed()), "alignas(64) double block"), 4u);
}

// A sum of squares has the same vectors whether exponentials are computed beside it or not.
TEST(CppLoopTexts, WhatElseIsInALoopDoesNotChangeHowFloatsAddUp) {
  const std::string input = "graph main\ninput %x: f32[30, 400]\n",
                    beside = "%e: f32[30, 400] = pointwise { %0 = load %x %1 = exp %0 store %1 }\n";
  const std::string squares =
      "%s: f32[30] = reduction sum over [400] { %0 = load %x %1 = mul %0, %0 store %1 }\n";
  const std::string terms = "%s: f32[30] = reduction sum over [400] { %0 = load %e store %0 }\n";
  const std::string light = "#pragma omp simd reduction(+ :",
                    wide = "#pragma omp simd simdlen(16) reduction(+ :";
  const std::string alone = source_of(input + squares + "output %s");
  EXPECT_EQ(count_of(alone, light), 1u) << alone;
  const std::string together = source_of(input + "fused f {\n" + beside + squares + "}\noutput %s output %e");
  EXPECT_EQ(count_of(together, light), 1u) << together;
  EXPECT_EQ(count_of(together, "for (int64_t i1 "), 1u) << "one loop";
  // Exponentials are the terms of this sum.
  const std::string heavy = source_of(input + "fused f {\n" + beside + terms + "}\noutput %s output %e");
  EXPECT_EQ(count_of(heavy, wide), 1u) << heavy;
}

// A truth value that is stored beside a sum is read from its register.
TEST(CppLoopTexts, WhatIsStoredBesideASumDoesNotChangeHowItAddsUp) {
  const auto source = [](const std::string& outputs) {
    return source_of(
        "graph main\ninput %x: f32[30, 400]\nfused f {\n"
        "%m: bool[30, 400] = pointwise { %0 = load %x %1 = constant f32 0 %2 = gt %0, %1 store %2 }\n"
        "%s: f32[30] = reduction sum over [400] { %0 = load %x %1 = exp %0 %2 = load %m %3 = constant f32 0\n"
        " %4 = where %2, %1, %3 store %4 }\n}\n" +
        outputs);
  };
  for (const char* outputs : {"output %s", "output %s output %m"}) {
    const std::string text = source(outputs);
    EXPECT_EQ(count_of(text, "#pragma omp simd simdlen(16) reduction(+ :"), 1u) << text;
  }
}

// Otherwise the narrowest value would fill a vector and the others a quarter of one.
TEST(CppLoopTexts, TheNarrowestValueOfALoopDecidesHowManyPointsAVectorHas) {
  const auto vectors = [](const std::string& type, const std::string& body) {
    const std::string source =
        source_of("graph main\ninput %x: " + type + "[30, 400]\ninput %b: u8[1]\n" + body + "output %y");
    for (const int count : {8, 16, 32, 64}) {
      if (count_of(source, fmt::format("#pragma omp simd simdlen({})", count)) == 1) return count;
    }
    ADD_FAILURE() << source;
    return 0;
  };
  const std::string exp = "%y: f32[30, 400] = pointwise { %0 = load %x %1 = exp %0 store %1 }\n";
  EXPECT_EQ(vectors("f32", exp), 16);
  EXPECT_EQ(vectors("f64", "%y: f64[30, 400] = pointwise { %0 = load %x %1 = exp %0 store %1 }\n"), 8);
  EXPECT_EQ(vectors("f16", "%y: f16[30, 400] = pointwise { %0 = load %x %1 = exp %0 store %1 }\n"), 32);
  EXPECT_EQ(
      vectors("f32",
              "%y: u8[30, 400] = pointwise {\n %0 = load %x %1 = exp %0 %2 = cast u8 %1\n store %2 }\n"),
      64);
  // A value that does not vary in the loop does not count, nor does a truth value.
  EXPECT_EQ(
      vectors("f32",
              "%y: f32[30, 400] = pointwise {\n %0 = load %x %1 = load %b[0] %2 = cast f32 %1 %3 = exp %0\n"
              " %4 = mul %2, %3 %5 = lt %4, %0 %6 = where %5, %4, %0 store %6 }\n"),
      16);
}

// Halves along the innermost loop are converted strip by strip; others where they are stored.
TEST(CppLoopTexts, HalvesGoThroughStripsAlongTheInnermostLoop) {
  const auto strips = [](const std::string& sizes, const std::string& body) {
    const std::string source = source_of("graph main\ninput %x: f32[" + sizes + "]\n" + body + "output %y");
    EXPECT_NE(count_of(source, "store"), 0u) << source;
    return count_of(source, "store_halves(");
  };
  const std::string cast = "pointwise { %0 = load %x %1 = cast f16 %0 store %1 }\n";
  EXPECT_EQ(strips("30, 400", "%y: f16[30, 400] = " + cast), 1u);
  EXPECT_EQ(strips("30, 20",
                   "%y: f16[30, 20, 1] = pointwise { %0 = load %x[20*i0 + i1] %1 = cast f16 %0"
                   " store %1 }\n"),
            1u)
      << "one loop of 600 points";
  EXPECT_EQ(strips("400, 4",
                   "%y: f16[400, 4] = pointwise { %0 = load %x[i0 + 400*i1] %1 = cast f16 %0"
                   " store %1 }\n"),
            0u)
      << "vectors lie in the outer loop";
  EXPECT_EQ(
      strips("300", "%y: f16[300] = pointwise { %0 = load %x %1 = sin %0 %2 = cast f16 %1 store %2 }\n"), 0u)
      << "two loops, by the angles";
}

// A strip has 1 KiB: the other results are converted where they are stored.
TEST(CppLoopTexts, StripsKeepToTheStacksBudget) {
  std::string members, outputs;
  for (int k = 0; k < 20; ++k) {
    members += fmt::format(
        "%y{0}: f16[300] = pointwise {{ %0 = load %x %1 = constant f32 {0} %2 = add %0, %1 %3 = cast f16 %2 "
        "store %3 }}\n",
        k);
    outputs += fmt::format("output %y{}\n", k);
  }
  const std::string source =
      source_of("graph main\ninput %x: f32[300]\nfused f {\n" + members + "}\n" + outputs);
  EXPECT_EQ(count_of(source, "alignas(64) float halves"), 16u) << source;
  EXPECT_EQ(count_of(source, "store(y"), 4u) << source;
}

}  // namespace
}  // namespace braid::test
