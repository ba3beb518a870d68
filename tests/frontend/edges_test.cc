// Operators at the edges of their types and sizes. Results are those of ONNX Runtime and of ONNX's reference
// evaluator, which agree here.
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "ir/error_numbers.h"
#include "passes/default_passes.h"
#include "passes/runner.h"
#include "tests/frontend/models.h"
#include "tests/support/interpreter_runs.h"
#include "tests/support/limited_child.h"

namespace braid::frontend {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::NanSensitiveFloatEq;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int kOpset = 20;

ir::Tensor counted(std::vector<std::int64_t> sizes) {  // 0, 1, 2, ...
  const std::int64_t count =
      std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
  std::vector<float> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0.0f);
  return ir::f32(std::move(sizes), values);
}

ir::Schedule import(const std::string& graph, const ImportOptions& options = {}) {
  return import_text(graph, options, kOpset);
}

// The first result, before and after the passes, which agree.
ir::Tensor result(ir::Schedule schedule, std::vector<ir::Tensor> inputs) {
  const std::vector<std::vector<ir::Tensor>> per_rank = {std::move(inputs)};
  const ir::Tensor written = ir::run(schedule, per_rank).outputs[0][0];
  passes::run_passes(schedule, passes::default_passes(), {});
  const ir::Tensor optimised = ir::run(schedule, per_rank).outputs[0][0];
  EXPECT_EQ(written.sizes, optimised.sizes);
  EXPECT_EQ(written.bytes, optimised.bytes);
  return written;
}
ir::Tensor result(const std::string& graph, std::vector<ir::Tensor> inputs) {
  return result(import(graph), std::move(inputs));
}

ir::UserError edge_error(const std::string& graph) {
  return error_of([&] { import(graph); });
}
// The error of a step; the model is a program.
ir::UserError error_of_step(const ir::Schedule& schedule, std::vector<ir::Tensor> inputs) {
  const std::vector<std::vector<ir::Tensor>> per_rank = {std::move(inputs)};
  return error_of([&] { ir::run(schedule, per_rank); });
}

// ---- numbers

constexpr std::int64_t kLarge = std::int64_t{1} << 40;

TEST(WideIntegers, ProductsAreSummedInTheirOwnType) {
  const ir::Tensor a = ir::i64({1, 2}, {kLarge, 3}), b = ir::i64({2, 1}, {5, kLarge});
  for (const char* nodes :
       {"y = MatMul(a, b)", "y = Gemm(a, b)", "y = Einsum <equation = \"ij,jk->ik\"> (a, b)",
        "c = Constant <value = int64[1] {0}> () p = MatMul(a, b) y = Add(p, c)",
        "p = MatMul(a, b) y = Abs(p)"}) {
    SCOPED_TRACE(nodes);
    EXPECT_THAT(
        result(fmt::format("g (int64[1,2] a, int64[2,1] b) => (int64[1,1] y) {{ {} }}", nodes), {a, b})
            .values<std::int64_t>(),
        ElementsAre(8 * kLarge));
  }
  const auto large = static_cast<std::uint64_t>(-1);
  EXPECT_THAT(result("g (uint64[1,2] a, uint64[2,1] b) => (uint64[1,1] y) { y = MatMul(a, b) }",
                     {ir::make_tensor<std::uint64_t>(ir::DType::u64, {1, 2}, {large, 0}),
                      ir::make_tensor<std::uint64_t>(ir::DType::u64, {2, 1}, {1, 7})})
                  .values<std::uint64_t>(),
              ElementsAre(large));
}

TEST(WideIntegers, ProductsOfConstantsAreSummedInTheirOwnType) {
  EXPECT_THAT(
      result("g (int64[1,1] x) => (int64[1,1] y) { a = Constant <value = int64[1,2] {1099511627776, 3}> "
             "() b = Constant <value = int64[2,1] {1, 1}> () p = MatMul(a, b) y = Add(p, x) }",
             {ir::i64({1, 1}, {0})})
          .values<std::int64_t>(),
      ElementsAre(kLarge + 3));
}

TEST(WideIntegers, ProductsThatAreNoSizesWrap) {
  EXPECT_THAT(
      result("g (int64[2] x) => (int64[2] y) { p = Constant <value = int64[2] {4611686018427387904, 5}> () "
             "two = Constant <value = int64 {2}> () c = Constant <value = bool[2] {1, 1}> () "
             "m = Mul(p, two) y = Where(c, m, x) }",
             {ir::i64({2}, {0, 0})})
          .values<std::int64_t>(),
      ElementsAre(std::numeric_limits<std::int64_t>::min(), 10));
}

std::vector<float> powers(const std::vector<float>& bases, float exponent) {
  const auto n = static_cast<std::int64_t>(bases.size());
  return result(fmt::format("g (float[{0}] x) => (float[{0}] y) {{ e = Constant <value = float {{{1}}}> () "
                            "y = Pow(x, e) }}",
                            n, exponent),
                {ir::f32({n}, bases)})
      .values<float>();
}

TEST(Pow, OfInfinitiesAndZerosIsWhatTheCLibrarySays) {
  for (const float exponent : {0.5f, -0.5f, 2.0f, 3.0f, -1.0f, 1.0f, 0.0f, 1.5f, 7.0f}) {
    SCOPED_TRACE(exponent);
    const std::vector<float> bases = {-kInf, kInf, -0.0f, 0.0f, kNan, 4, -4, 1};
    const std::vector<float> got = powers(bases, exponent);
    for (std::size_t k = 0; k < bases.size(); ++k) {
      EXPECT_THAT(got[k], NanSensitiveFloatEq(std::pow(bases[k], exponent))) << bases[k];
      EXPECT_EQ(std::signbit(got[k]), std::signbit(std::pow(bases[k], exponent))) << bases[k];
    }
  }
}

TEST(MaxPool, AWindowWithNaNIsNaN) {
  EXPECT_THAT(
      result("g (float[1,1,6] x) => (float[1,1,3] y) { y = MaxPool <kernel_shape = [2], strides = [2]> (x) }",
             {ir::f32({1, 1, 6}, {1, kNan, kNan, 2, 3, 4})})
          .values<float>(),
      ElementsAre(NanSensitiveFloatEq(kNan), NanSensitiveFloatEq(kNan), 4));
}

// ---- windows

TEST(ConvTranspose, WhatAnOutputShapeHasBeyondTheNaturalSizeIsAtTheEnd) {
  EXPECT_THAT(
      result("g (float[1,1,3] x) => (float[1,1,11] y) { w = Constant <value = float[1,1,3] {1, 10, 100}> () "
             "y = ConvTranspose <output_shape = [11], strides = [3]> (x, w) }",
             {ir::f32({1, 1, 3}, {1, 2, 3})})
          .values<float>(),
      ElementsAre(1, 10, 100, 2, 20, 200, 3, 30, 300, 0, 0));
}

// -2 elements of padding: half of it, and with SAME_LOWER the larger half, both rounded to zero.
TEST(Pools, NegativePaddingOfSameSkipsElements) {
  for (const char* op : {"LpPool <p = 1, ", "MaxPool <", "AveragePool <"}) {
    for (const auto& [pads, first] : {std::pair("SAME_UPPER", 1.0f), {"SAME_LOWER", 0.0f}}) {
      const auto y = result(fmt::format("g (float[1,1,6] x) => (float[1,1,2] y) {{ y = {}auto_pad = \"{}\", "
                                        "kernel_shape = [1], strides = [3]> (x) }}",
                                        op, pads),
                            {counted({1, 1, 6})})
                         .values<float>();
      EXPECT_THAT(y, ElementsAre(first, first + 3)) << op << pads;
    }
  }
}

// ---- sizes

TEST(Einsum, ASizeOfOneRepeats) {
  EXPECT_THAT(
      result("g (float[1] a, float[3] b) => (float[3] y) { y = Einsum <equation = \"i,i->i\"> (a, b) }",
             {ir::f32({1}, {2}), ir::f32({3}, {1, 2, 3})})
          .values<float>(),
      ElementsAre(2, 4, 6));
  EXPECT_EQ(result("g (float[1,3,4] a, float[2,4,5] b) => (float[2,3,5] y) { y = Einsum <equation = "
                   "\"bij,bjk->bik\"> (a, b) }",
                   {counted({1, 3, 4}), counted({2, 4, 5})})
                .sizes,
            (std::vector<std::int64_t>{2, 3, 5}));
}

TEST(Einsum, EquationsOfDotsAndOtherCharactersAreRefused) {
  for (const char* equation : {"....i->i", "i....", "...i...", "....", "......", "i.j->ij", "i-j", "i>j",
                               "i.j", "i->->i", "i,j->ij", "1i->i", "i j k", "\\x00i"}) {
    SCOPED_TRACE(equation);
    const int code =
        edge_error(fmt::format("g (float[2,3] x) => (y) {{ y = Einsum <equation = \"{}\"> (x) }}", equation))
            .code();
    EXPECT_TRUE(code == errors::kInvalidAttribute || code == errors::kShapeMismatch) << code;
  }
}

TEST(Slice, AStepBeyondTheSizeTakesOneElement) {
  for (const std::int64_t step :
       {std::int64_t{1} << 31, std::int64_t{1} << 32, std::numeric_limits<std::int64_t>::max()}) {
    const auto slice = [&](std::int64_t from, std::int64_t to, std::int64_t by) {
      return result(fmt::format(
                        "g (int64[4] x) => (y) {{ s = Constant <value = int64[1] {{{}}}> () e = Constant "
                        "<value = int64[1] {{{}}}> () a = Constant <value = int64[1] {{0}}> () t = Constant "
                        "<value = int64[1] {{{}}}> () y = Slice(x, s, e, a, t) }}",
                        from, to, by),
                    {ir::i64({4}, {5, 6, 7, 8})})
          .values<std::int64_t>();
    };
    EXPECT_THAT(slice(0, 4, step), ElementsAre(5));
    EXPECT_THAT(slice(3, -9, -step), ElementsAre(8));
  }
}

TEST(Slice, StepsBeyondTheSizeMayFollowEachOther) {
  EXPECT_THAT(
      result("g (int64[4] x) => (y) { z = Constant <value = int64[1] {0}> () e = Constant <value = "
             "int64[1] {9}> () l = Constant <value = int64[1] {-9}> () b = Constant <value = int64[1] "
             "{-8589934592}> () t = Constant <value = int64[1] {2147483648}> () v = Slice(x, e, l, z, b) "
             "y = Slice(v, z, e, z, t) }",
             {ir::i64({4}, {5, 6, 7, 8})})
          .values<std::int64_t>(),
      ElementsAre(8));
}

TEST(Slice, BackwardsThroughNothingGivesNothing) {
  const ir::Tensor y = result(
      "g (float[2] x) => (y) { n = Constant <value = int64[1] {0}> () e = Tile(x, n) s = Constant <value = "
      "int64[1] {2}> () t = Constant <value = int64[1] {1}> () b = Constant <value = int64[1] {-2}> () v = "
      "Slice(e, s, t, n, b) k = Constant <value = int64[2] {0, 1}> () w = ConstantOfShape(k) y = MatMul(v, "
      "w) }",
      {ir::f32({2}, {5, 6})});
  EXPECT_THAT(y.sizes, ElementsAre(1));
  EXPECT_THAT(y.values<float>(), ElementsAre(0));
}

TEST(Reshape, AZeroMayCopyASizeOfZero) {
  const auto sizes = [](const char* target) {
    return result(fmt::format(
                      "g (float[0,3] x) => (y) {{ t = Constant <value = int64{}> () y = Reshape(x, t) }}",
                      target),
                  {ir::f32({0, 3}, {})})
        .sizes;
  };
  EXPECT_THAT(sizes("[1] {0}"), ElementsAre(0));
  EXPECT_THAT(sizes("[3] {0, 7, 5}"), ElementsAre(0, 7, 5));
  EXPECT_THAT(sizes("[2] {0, 0}"), ElementsAre(0, 3));
}

// x is [n, 3]; a computed size of n - 2 would copy n if it were 0.
TEST(Reshape, AComputedSizeOfZeroCopiesNothingSilently) {
  ImportOptions options;
  options.dims = {{"n", {2, 5}}};
  const ir::Schedule schedule = import(
      "g (float[n,3] x) => (y) { z = Constant <value = int64[1] {0}> () one = Constant <value = int64[1] "
      "{1}> () "
      "two = Constant <value = int64[1] {2}> () s = Shape(x) n = Gather(s, z) m = Sub(n, two) none = "
      "Constant <value "
      "= int64[1] {-1}> () t = Concat <axis = 0> (none, one, m) e = Concat <axis = 0> (m, one) w = Constant "
      "<value = float {1}> "
      "() v = Expand(w, e) y = Reshape(v, t) }",
      options);
  EXPECT_THAT(error_of_step(schedule, {ir::f32({2, 3}, {0, 0, 0, 0, 0, 0})}).what(),
              HasSubstr("does not hold"));
  EXPECT_THAT(result(schedule, {counted({4, 3})}).sizes, ElementsAre(1, 1, 2));
}

TEST(NegativeSizes, ThatAreKnownAreRefused) {
  for (const char* nodes : {"e = Constant <value = int64[2] {-2, 3}> () y = Expand(x, e)",
                            "e = Constant <value = int64[2] {2, -1}> () y = Tile(x, e)",
                            "e = Constant <value = int64[2] {2, -1}> () y = ConstantOfShape(e)",
                            "k = Constant <value = int64[1] {-1}> () y, i = TopK(x, k)",
                            "e = Constant <value = int64[2] {-1, 4}> () y = Split <axis = 1> (x, e)"}) {
    SCOPED_TRACE(nodes);
    const int code = edge_error(fmt::format("g (float[2,3] x) => (y) {{ {} }}", nodes)).code();
    EXPECT_TRUE(code == errors::kShapeMismatch || code == errors::kInvalidAttribute ||
                code == errors::kInvalidNode)
        << code;
  }
}

// n - 2 is negative for n = 1.
TEST(NegativeSizes, OfSomeStepsEndThem) {
  ImportOptions options;
  options.dims = {{"n", {0, 5}}};
  const std::string size =
      "two = Constant <value = int64[1] {2}> () one = Constant <value = int64[1] {1}> () four = Constant "
      "<value = int64[1] "
      "{4}> () s = Shape <end = 1> (x) e = Sub(s, two) w = Constant <value = float[1,1,2,2] {1,1,1,1}> () ";
  for (const char* nodes :
       {"r = Concat <axis = 0> (one, one, e, four) y = Resize(w, , , r)",
        "t = Constant <value = float[1,2,3] {1,0,0,0,1,0}> () r = Concat <axis = 0> (one, one, e, four) y = "
        "AffineGrid(t, r)",
        "v = Constant <value = float[2] {0, 1}> () y = OneHot(one, e, v)",
        "r = Concat <axis = 0> (e, four) f = Constant <value = float {1}> () y = Expand(f, r)",
        "r = Concat <axis = 0> (e, one) y = Tile(x, r)", "y = ConstantOfShape(e)",
        "u = Unsqueeze(x, one) y = STFT <onesided = 0> (u, one, , four)"}) {
    SCOPED_TRACE(nodes);
    try {
      const ir::Schedule schedule =
          import(fmt::format("g (float[n,4] x) => (y) {{ {} {} }}", size, nodes), options);
      error_of_step(schedule, {ir::f32({1, 4}, {0, 0, 0, 0})});
    } catch (const ir::UserError& error) {
      EXPECT_TRUE(error.code() == errors::kShapeMismatch) << error.what();
    }
  }
}

TEST(EmptyTables, HaveNoElementThatAnIndexFinds) {
  ImportOptions options;
  options.dims = {{"n", {0, 3}}};
  for (const char* node :
       {"y = Gather(x, i)", "y = GatherND(x, i)", "u = Unsqueeze(i, a) y = GatherElements(x, u)"}) {
    const std::string text = fmt::format(
        "g (float[{{}},4] x, int64[1] i) => (y) {{{{ a = Constant <value = int64[1] {{{{1}}}}> () {} }}}}",
        node);
    for (const char* rows : {"n", "0"}) {
      SCOPED_TRACE(fmt::format("{} {}", node, rows));
      const std::string graph = fmt::format(fmt::runtime(text), rows);
      const ir::Schedule schedule = rows == std::string_view("n") ? import(graph, options) : import(graph);
      EXPECT_THAT(error_of_step(schedule, {ir::f32({0, 4}, {}), ir::i64({1}, {0})}).what(),
                  HasSubstr("index 0 is out of range"));
    }
  }
}

TEST(Pad, OfNothingHasNoElementToRepeat) {
  ImportOptions options;
  options.dims = {{"n", {0, 3}}};
  for (const char* mode : {"edge", "reflect", "wrap"}) {
    SCOPED_TRACE(mode);
    const auto text = [&](const char* rows) {
      return fmt::format(
          "g (float[{},2] x) => (y) {{ p = Constant <value = int64[4] {{1, 0, 0, 0}}> () y = Pad <mode = "
          "\"{}\"> (x, p) }}",
          rows, mode);
    };
    EXPECT_EQ(edge_error(text("0")).code(), errors::kShapeMismatch);
    const ir::Schedule schedule = import(text("n"), options);
    EXPECT_THAT(error_of_step(schedule, {ir::f32({0, 2}, {})}).what(), HasSubstr("does not hold"));
    EXPECT_THAT(
        ir::run(schedule, std::vector<std::vector<ir::Tensor>>{{counted({3, 2})}}).outputs[0][0].sizes,
        ElementsAre(4, 2));
  }
}

TEST(Pad, FillsWithOneElement) {
  const auto text = [](const char* sizes) {
    return fmt::format(
        "g (float[2] x, float{} v) => (y) {{ p = Constant <value = int64[2] {{1, 0}}> () y = Pad(x, p, v) }}",
        sizes);
  };
  EXPECT_THAT(result(text("[1]"), {ir::f32({2}, {1, 2}), ir::f32({1}, {7})}).values<float>(),
              ElementsAre(7, 1, 2));
  for (const char* sizes : {"[0]", "[2]", "[1,0]"})
    EXPECT_EQ(edge_error(text(sizes)).code(), errors::kShapeMismatch) << sizes;
  ImportOptions options;
  options.dims = {{"n", {0, 3}}};
  EXPECT_THAT(error_of_step(import(text("[n]"), options), {ir::f32({2}, {1, 2}), ir::f32({0}, {})}).what(),
              HasSubstr("does not hold"));
}

TEST(MaxPool, PositionsInAnImageOfNothing) {
  const ir::Schedule schedule = import(
      "g (float[1,1,0,2] x) => (y, i) { y, i = MaxPool <ceil_mode = 1, kernel_shape = [1, 1], storage_order "
      "= 1, strides = [3, 1]> (x) }");
  EXPECT_THAT(ir::run(schedule, std::vector<std::vector<ir::Tensor>>{{ir::f32({1, 1, 0, 2}, {})}})
                  .outputs[0][1]
                  .sizes,
              ElementsAre(1, 1, 0, 2));
}

TEST(Trilu, TheDiagonalIsOneElement) {
  for (const char* sizes : {"[0]", "[2]", "[1,0]"}) {
    EXPECT_EQ(
        edge_error(fmt::format("g (float[2,2] x, int64{} k) => (y) {{ y = Trilu(x, k) }}", sizes)).code(),
        errors::kShapeMismatch)
        << sizes;
  }
}

// Memory outside of a list of sizes was read.
TEST(Ranks, AScalarHasNoAxis) {
  for (const char* graph :
       {"g (uint8[1,1,3] x, uint8 w, uint8 a, uint8[2] b) => (y) { y = ConvInteger(x, w, a, b) }",
        "g (float[1,2,4] x, float w, float[12] b) => (y) { y = com.microsoft.Attention <num_heads = 2> (x, "
        "w, b) }",
        "g (int32[1,2] i, float[5,4] w, float p, float[4] g, float[4] b) => (y) { y, m = "
        "com.microsoft.EmbedLayerNormalization(i, \"\", w, p, \"\", g, b) }"}) {
    SCOPED_TRACE(graph);
    EXPECT_EQ(edge_error(graph).code(), errors::kShapeMismatch);
  }
  constexpr const char* kScan =
      "g (float{} initial, float{} x) => (y, z) {{ y, z = Scan <num_scan_inputs = 1, body = f (float s, "
      "float v) => (float t, "
      "float w) {{ t = Add(s, v) w = Identity(t) }}> (\"\", initial, x) }}";
  for (const auto& [initial, x] : {std::pair("[1]", ""), std::pair("", "[1,3]")}) {
    const std::string graph = fmt::format(fmt::runtime(kScan), initial, x);
    EXPECT_EQ(error_of([&] { import_text(graph, {}, 8); }).code(), errors::kShapeMismatch) << graph;
  }
}

TEST(Variadic, NeedsOneInput) {
  for (const char* op : {"Max", "Mean", "Min", "Sum"}) {
    EXPECT_EQ(edge_error(fmt::format("g (float[2] x) => (y) {{ y = {}(\"\") }}", op)).code(),
              errors::kInvalidNode)
        << op;
  }
}

TEST(Caches, HaveTheTypeOfWhatIsAdded) {
  EXPECT_EQ(
      edge_error("g (float[1,1,12] x, float16[1,1,3,4] k, float16[1,1,3,4] v, int32[1] n) => (y, a, b) { "
                 "t = Constant "
                 "<value = int32[1] {4}> () y, a, b = com.microsoft.GroupQueryAttention <num_heads = 1, "
                 "kv_num_heads = 1> "
                 "(x, \"\", \"\", k, v, n, t) }")
          .code(),
      errors::kTypeMismatch);
}

TEST(SizesBeyond31Bits, AreRefusedOrLowered) {
  for (const char* graph :
       {"g (float[1, 4294967296] a, float[4294967296, 1] b) => (y) { y = MatMul(a, b) }",
        "g (float[2147483648, 2] a, float[2, 2] b) => (y) { y = MatMul(a, b) }",
        "g (float[1,1,2147483648,2] a, float[1,1,2,2] b) => (y) { y = Attention(a, b, b) }",
        "g (float[1,1,2,2] a, float[1,1,4294967296,2] b) => (y) { y = Attention(a, b, b) }"}) {
    SCOPED_TRACE(graph);
    try {
      ir::Schedule schedule = import_text(graph, {}, 23);
      passes::run_passes(schedule, passes::default_passes(), {});
    } catch (const ir::UserError& error) {
      EXPECT_GT(error.code(), 100) << error.what();
    }
  }
}

// ---- views of what is laid out later

// repeat_kv as exporters write it, and its relatives: [.., 1] of a product, repeated and joined.
TEST(RepeatedProducts, AreWhatTheirElementsSay) {
  const std::string target = "t = Constant <value = int64[1] {15}> () ";
  const ir::Tensor a = counted({5, 4}), b = counted({4, 1});
  const auto repeated = [&](const std::string& nodes) {
    return result("g (float[5,4] a, float[4,1] b) => (y) { " + target + nodes + " }", {a, b}).values<float>();
  };
  const std::vector<float> product = {14, 38, 62, 86, 110};
  std::vector<float> want;
  for (const float p : product) want.insert(want.end(), 3, p);
  const std::string expand = "s = Constant <value = int64[2] {5, 3}> () p = MatMul(a, b) e = Expand(p, s) ";
  EXPECT_EQ(repeated(expand + "y = Reshape(e, t)"), want);
  EXPECT_EQ(
      repeated("s = Constant <value = int64[2] {5, 3}> () p = Gemm(a, b) e = Expand(p, s) y = Reshape(e, t)"),
      want);
  EXPECT_EQ(
      repeated("s = Constant <value = int64[2] {1, 3}> () p = MatMul(a, b) e = Tile(p, s) y = Reshape(e, t)"),
      want);
  std::vector<float> transposed;
  for (int k = 0; k < 3; ++k) transposed.insert(transposed.end(), product.begin(), product.end());
  EXPECT_EQ(repeated(expand + "u = Transpose(e) y = Reshape(u, t)"), transposed);
}

// ---- time and memory

// Imports in a process of little memory and time.
void expect_quick(const std::string& graph) {
  constexpr rlim_t kMemory = rlim_t{1} << 30;
  const auto attempt = [&](int) {
    try {
      import(graph);
    } catch (const ir::UserError&) {
    }
  };
  for (const auto& [number, what] : test::run_limited(1, attempt, kMemory))
    ADD_FAILURE() << graph << ": " << what;
}

TEST(CompileTime, DoesNotFollowTheSizesOfResizedAxes) {
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (const std::int64_t size :
         {std::int64_t{100'000'000}, std::int64_t{1} << 32, std::int64_t{1} << 62}) {
      for (const char* more : {"", ", antialias = 1"}) {
        expect_quick(fmt::format(
            "g (float[1,1,2,2] x) => (y) {{ s = Constant <value = int64[4] {{1, 1, 2, {}}}> () y = "
            "Resize <mode = \"{}\"{}> (x, , , s) }}",
            size, mode, more));
      }
    }
  }
}

TEST(RoiAlign, OfInfiniteCornersEnds) {
  const ir::Schedule schedule = import(
      "g (float[1,1,4,4] x, float[3,4] r, int64[3] b) => (y) { y = RoiAlign <output_height = 2, output_width "
      "= 2> (x, r, b) }");
  std::vector<float> corners = {0, 0, kInf, kInf, kNan, 0, 1, 1, -3e38f, -3e38f, 3e38f, 3e38f};
  const std::vector<std::vector<ir::Tensor>> inputs = {
      {counted({1, 1, 4, 4}), ir::f32({3, 4}, corners), ir::i64({3}, {0, 0, 0})}};
  EXPECT_EQ(ir::run(schedule, inputs).outputs[0][0].sizes, (std::vector<std::int64_t>{3, 1, 2, 2}));
}

// ---- where things stand in a file

TEST(Functions, AreInlinedInBodiesToo) {
  onnx::ModelProto model = parse_model(
      "g (bool c, float[2] x) => (float[2] y) { y = If (c) <then_branch = t () => (float[2] a) { a = Abs(x) "
      "}, "
      "else_branch = f () => (float[2] b) { b = Neg(x) }> }");
  onnx::OperatorSetIdProto& local = *model.add_opset_import();
  local.set_domain("local");
  local.set_version(1);
  onnx::FunctionProto& twice = *model.add_functions();
  twice.set_domain("local");
  twice.set_name("twice");
  twice.add_input("v");
  twice.add_output("w");
  *twice.add_opset_import() = model.opset_import(0);
  onnx::NodeProto& add = *twice.add_node();
  add.set_op_type("Add");
  add.add_input("v");
  add.add_input("v");
  add.add_output("w");
  for (onnx::AttributeProto& branch : *model.mutable_graph()->mutable_node(0)->mutable_attribute()) {
    onnx::NodeProto& node = *branch.mutable_g()->mutable_node(0);
    node.set_domain("local");
    node.set_op_type("twice");
  }
  EXPECT_THAT(result(import_proto(model), {ir::boolean({}, {1}), ir::f32({2}, {1, 2})}).values<float>(),
              ElementsAre(2, 4));
}

TEST(Outputs, NeedNoShape) {
  onnx::ModelProto model = parse_model("g (float[2] x) => (float[2] y) { y = Neg(x) }");
  model.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  EXPECT_THAT(result(import_proto(model), {ir::f32({2}, {1, 2})}).values<float>(), ElementsAre(-1, -2));
  model.mutable_graph()->mutable_output(0)->clear_type();
  EXPECT_THAT(result(import_proto(model), {ir::f32({2}, {1, 2})}).values<float>(), ElementsAre(-1, -2));
}

void keep_outside(onnx::TensorProto& tensor, const std::string& file, std::int64_t bytes) {
  tensor.clear_raw_data();
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  const std::pair<const char*, std::string> entries[] = {
      {"location", file}, {"offset", "0"}, {"length", std::to_string(bytes)}};
  for (const auto& [key, value] : entries) {
    onnx::StringStringEntryProto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
}

// External data of a tensor in an attribute, and of an initializer of a branch: the folder of the model
// counts, not the working directory.
TEST(ExternalDataInBodies, LiesBesideTheModel) {
  const std::vector<float> weights = {10, 20};
  const std::string bytes(reinterpret_cast<const char*>(weights.data()), sizeof(float) * weights.size());
  const TemporaryFolder folder;
  folder.write("w.bin", bytes);
  onnx::TensorProto w;
  w.set_name("w");
  w.set_data_type(onnx::TensorProto::FLOAT);
  w.add_dims(2);
  keep_outside(w, "w.bin", static_cast<std::int64_t>(bytes.size()));

  onnx::ModelProto attribute = parse_model(
      "g (float[2] x) => (float[2] y) { w = Constant <value = float[2] {0, 0}> () y = Add(x, w) }");
  *attribute.mutable_graph()->mutable_node(0)->mutable_attribute(0)->mutable_t() = w;
  EXPECT_THAT(result(import_model(folder.write("attribute.onnx", attribute), {}), {ir::f32({2}, {1, 2})})
                  .values<float>(),
              ElementsAre(11, 22));

  onnx::ModelProto branch = parse_model(
      "g (bool c, float[2] x) => (float[2] y) { y = If (c) <then_branch = t () => (float[2] a) { a = Add(x, "
      "w) }, "
      "else_branch = f () => (float[2] b) { b = Sub(x, w) }> }");
  for (onnx::AttributeProto& body : *branch.mutable_graph()->mutable_node(0)->mutable_attribute())
    *body.mutable_g()->add_initializer() = w;
  EXPECT_THAT(result(import_model(folder.write("branch.onnx", branch), {}),
                     {ir::boolean({}, {0}), ir::f32({2}, {1, 2})})
                  .values<float>(),
              ElementsAre(-9, -18));
}

}  // namespace
}  // namespace braid::frontend
