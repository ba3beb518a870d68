// The extern kernels that come with Braid (codegen/kernels) in C++ programs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <tuple>

#include "ir/parser.h"
#include "tests/codegen/compiled.h"
#include "tests/support/user_error.h"

namespace braid::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTopK = R"(graph g
dim n in [0, 5] dim k in [0, 9]
input %x: f32[n, 9] input %i: u64[n, 9] input %size: f32[k]
%v: f32[n, k], %p: i64[n, k] = extern "top_k" reads(%x) attributes(largest = 1)
%w: u64[n, k], %q: i64[n, k] = extern "top_k" reads(%i) attributes(largest = 0)
output %v output %p output %w output %q output %size)";

// Blocks of 4 and 8 bits, with and without zero points, and a last block that is cut short.
constexpr const char* kBlockProduct = R"(graph g
dim m in [0, 11]
input %x: f32[m, 80] input %q: u8[5, 48] input %e: u8[5, 80] input %s: f32[5, 3] input %u: f32[5, 5] input %z: u8[5, 3]
%y: f32[m, 5], %v: f32[m, 96] = extern "block_product" reads(%x, %q, %s, %z) attributes(bits = 4, block = 32)
%w: f32[m, 5], %t: f32[m, 80] = extern "block_product" reads(%x, %e, %u) attributes(bits = 8, block = 16)
output %y output %w)";

// Few different numbers, so that there are ties, and a NaN.
ir::Tensor floats(std::int64_t rows) {
  std::vector<float> values;
  for (std::int64_t k = 0; k < rows * 9; ++k) values.push_back(static_cast<float>(k * 7 % 5) - 2);
  if (rows > 1) values[12] = std::numeric_limits<float>::quiet_NaN();
  return ir::make_tensor(ir::DType::f32, {rows, 9}, values);
}

// One beyond the range of int64.
ir::Tensor integers(std::int64_t rows) {
  std::vector<std::uint64_t> values;
  for (std::int64_t k = 0; k < rows * 9; ++k) values.push_back(static_cast<std::uint64_t>(k * 11 % 4));
  if (rows > 0) values[3] = ~std::uint64_t{0};
  return ir::make_tensor(ir::DType::u64, {rows, 9}, values);
}

TEST(Kernels, TopKEqualsTheInterpreter) {
  Compiled compiled("-O2");
  compiled.add("top_k", kTopK);
  compiled.build();
  for (std::int64_t n : {0, 1, 5}) {
    for (std::int64_t k = 0; k <= 9; ++k) {
      compiled.expect_like_interpreter_on("top_k",
                                          {floats(n), integers(n), ir::make_tensor(ir::DType::f32, {k})}, 0);
    }
  }
}

TEST(Kernels, BlockProductHasTheInterpretersBits) {
  Compiled compiled("-O2");
  compiled.add("block_product", kBlockProduct);
  compiled.build();
  for (const std::int64_t m : {0, 1, 2, 11}) compiled.expect_like_interpreter("block_product", {{"m", m}}, 0);
}

// Several updates of one row, rows without one, and positions that are left out; no update, and no element.
TEST(Kernels, ScatterEqualsTheInterpreter) {
  Compiled compiled("-O2");
  const char* const reductions[] = {"none", "add", "mul", "max", "min"};
  for (const char* reduction : reductions) {
    compiled.add(fmt::format("scatter_{}", reduction), fmt::format(R"(graph g
dim n in [0, 9] dim w in [0, 5]
input %x: f32[2, 7, w] input %at: i64[2, n] input %u: f32[2, n, w] input %i: u8[2, 7, w] input %j: u8[2, n, w]
%p: i64[2, n] = pointwise {{ %0 = load %at %1 = constant i64 9 %2 = mod %0, %1 %3 = constant i64 1 %4 = sub %2, %3 store %4 }}
%y: f32[2, 7, w] = extern "scatter" reads(%x, %p, %u) attributes(reduction = "{0}")
%z: u8[2, 7, w] = extern "scatter" reads(%i, %p, %j) attributes(reduction = "{0}")
output %y output %z)",
                                                                   reduction));
  }
  compiled.build();
  for (const char* reduction : reductions) {
    for (const std::int64_t n : {0, 1, 9}) {
      for (const std::int64_t w : {0, 1, 5})
        compiled.expect_like_interpreter(fmt::format("scatter_{}", reduction), {{"n", n}, {"w", w}});
    }
  }
}

TEST(Kernels, CumulativeEqualsTheInterpreter) {
  Compiled compiled("-O2");
  compiled.add("cumulative", R"(graph g
dim n in [0, 40] dim w in [0, 5]
input %x: f32[3, n, w] input %i: i16[3, n, w]
%y: f32[3, n, w] = extern "cumulative" reads(%x) attributes(exclusive = 0, product = 0, reverse = 0)
%z: f32[3, n, w] = extern "cumulative" reads(%x) attributes(exclusive = 1, product = 0, reverse = 1)
%p: i16[3, n, w] = extern "cumulative" reads(%i) attributes(exclusive = 1, product = 1, reverse = 0)
output %y output %z output %p)");
  compiled.build();
  for (const std::int64_t n : {0, 1, 9, 40}) {
    for (const std::int64_t w : {0, 1, 5})
      compiled.expect_like_interpreter("cumulative", {{"n", n}, {"w", w}});
  }
}

TEST(Kernels, RoiAlignEqualsTheInterpreter) {
  Compiled compiled("-O2");
  for (const char* maximum : {"0", "1"}) {
    for (const char* type : {"f32", "f64"}) {
      compiled.add(fmt::format("roi_align_{}_{}", maximum, type), fmt::format(R"(graph g
input %x: {0}[2, 3, 6, 5] input %r: {0}[3, 4] input %b: i64[3]
%y: {0}[3, 3, 2, 4] = extern "roi_align" reads(%x, %r, %b) attributes(half_pixel = 1, maximum = {1}, sampling_ratio = 0, spatial_scale = 0.5)
output %y)",
                                                                              type, maximum));
    }
  }
  compiled.build();
  const std::vector<double> corners = {0, 0, 9, 11, 2, 3, 1, 2, -4, -4, 30, 30};
  const ir::Tensor images = ir::make_tensor(ir::DType::i64, {3}, std::vector<std::int64_t>{1, 0, 1});
  for (const char* maximum : {"0", "1"}) {
    compiled.expect_like_interpreter_on(
        fmt::format("roi_align_{}_f32", maximum),
        {random_tensor(ir::DType::f32, {2, 3, 6, 5}, 1),
         ir::make_tensor(ir::DType::f32, {3, 4}, std::vector<float>(corners.begin(), corners.end())), images},
        1e-5);
    compiled.expect_like_interpreter_on(fmt::format("roi_align_{}_f64", maximum),
                                        {random_tensor(ir::DType::f64, {2, 3, 6, 5}, 1),
                                         ir::make_tensor(ir::DType::f64, {3, 4}, corners), images},
                                        1e-12);
  }
}

std::string kernel_refusal(const std::string& program) {
  return error_of([&] {
    Compiled compiled;
    compiled.add("refused", "graph g\n" + program);
  });
}

TEST(Kernels, NonZeroEqualsTheInterpreter) {
  Compiled compiled("-O2");
  compiled.add("non_zero", R"(graph g
dim n in [0, 9] dim m in [0, 63]
input %x: i64[n, 7]
%flags: bool[n, 7] = pointwise { %0 = load %x %1 = constant i64 0 %2 = ne %0, %1 store %2 }
%count: i64[] = reduction sum over [n, 7] { %0 = load %flags[7*i0 + i1] %1 = cast i64 %0 store %1 }
measure m %count
%y: i64[2, m] = extern "non_zero" reads(%flags)
output %y)");
  compiled.build();
  for (const std::int64_t n : {0, 1, 4, 9}) {
    for (const std::int64_t step : {1, 2, 5}) {
      std::vector<std::int64_t> values;
      for (std::int64_t k = 0; k < n * 7; ++k) values.push_back(k * step % 3);
      compiled.expect_like_interpreter_on("non_zero", {ir::make_tensor(ir::DType::i64, {n, 7}, values)}, 0);
    }
  }
}

TEST(Kernels, UniqueEqualsTheInterpreter) {
  Compiled compiled("-O2");
  std::string text = "graph g dim n in [0, 9] input %x: f32[n, 9] input %i: u64[n, 9] ";
  for (const auto& [name, type, sorted] :
       {std::tuple("x", "f32", 0), {"x", "f32", 1}, {"i", "u64", 0}, {"i", "u64", 1}}) {
    const std::string own = std::string(name) + std::to_string(sorted);
    text += fmt::format(
        "%{0}v: {1}[9*n], %{0}f: i64[9], %{0}c: i64[9], %{0}i: i64[9], %{0}k: i64[] = extern \"unique\" "
        "reads(%{2} [n, 9, 1] strides [9, 1, 1]) attributes(sorted = {3}) "
        "output %{0}i output %{0}k ",
        own, type, name, sorted);
    // Elements behind the last value are undefined.
    text += fmt::format(
        "dim {0}n in [0, 9] measure {0}n %{0}k "
        "%{0}first: i64[{0}n] = pointwise {{ %0 = load %{0}f[i0] store %0 }} "
        "%{0}counts: i64[{0}n] = pointwise {{ %0 = load %{0}c[i0] store %0 }} "
        "%{0}values: {1}[n*{0}n] = pointwise {{ %0 = load %{0}v[i0] store %0 }} "
        "output %{0}first output %{0}counts output %{0}values ",
        own, type);
  }
  compiled.add("unique", text);
  compiled.build();
  for (const std::int64_t n : {0, 1, 2, 5})
    compiled.expect_like_interpreter_on("unique", {floats(n), integers(n)}, 0);
}

TEST(Kernels, NonMaxSuppressionEqualsTheInterpreter) {
  Compiled compiled("-O2");
  compiled.add("nms", R"(graph g
dim n in [0, 40] dim k in [0, 160]
input %boxes: f32[2, n, 4] input %scores: f32[2, 2, n] input %most: i64[] input %share: f32[] input %lowest: f32[]
%s: i64[160, 3], %c: i64[] = extern "non_max_suppression" reads(%boxes, %scores, %most, %share, %lowest) attributes(center = 0, filter = 1)
%t: i64[160, 3], %d: i64[] = extern "non_max_suppression" reads(%boxes, %scores, %most, %share, %lowest) attributes(center = 1, filter = 0)
measure k %c
%y: i64[k, 3] = pointwise { %0 = load %s[3*i0 + i1] store %0 }
output %y output %d)");
  compiled.build();
  for (const std::int64_t n : {0, 1, 3, 40}) {
    for (const std::int64_t most : {0, 2, 100}) {
      for (const float share : {0.0f, 0.3f, 0.8f}) {
        std::vector<float> boxes, scores;
        for (std::int64_t k = 0; k < n * 8; ++k) boxes.push_back(static_cast<float>(k * 53 % 31) / 31);
        for (std::int64_t k = 0; k < n * 4; ++k) scores.push_back(static_cast<float>(k * 29 % 17) / 17);
        if (n > 1) scores[1] = std::numeric_limits<float>::quiet_NaN();
        compiled.expect_like_interpreter_on(
            "nms",
            {ir::make_tensor(ir::DType::f32, {2, n, 4}, boxes),
             ir::make_tensor(ir::DType::f32, {2, 2, n}, scores),
             ir::make_tensor(ir::DType::i64, {}, std::vector<std::int64_t>{most}),
             ir::make_tensor(ir::DType::f32, {}, std::vector<float>{share}),
             ir::make_tensor(ir::DType::f32, {}, std::vector<float>{0.1f})},
            0);
      }
    }
  }
}

// Masked loads side by side, in vectors around a short loop and in one loop, in both orders: GCC 12 loses the
// order of such loads.
TEST(Kernels, MaskedLoadsInStepsKeepTheirOrder) {
  Compiled compiled("-O3 -march=native");
  std::vector<std::string> names;
  const auto add = [&](const char* type, int rows, int width, bool reversed) {
    names.push_back(fmt::format("{}_{}_{}_{}", type, rows, width, reversed ? "reversed" : "forward"));
    const std::string inside = fmt::format(
        "%0 = index i64 i0 - 1 %1 = constant i64 0 %2 = ge %0, %1 %3 = constant i64 {} %4 = lt %0, %3 "
        "%5 = and %2, %4",
        rows);
    const std::string column = reversed ? fmt::format("{} - i1", width - 1) : "i1";
    compiled.add(names.back(), fmt::format(R"(graph g
input %x: {0}[{1}, {2}]
%y: {0}[{3}, {2}] = pointwise {{ {4}
  %6 = load %x[{2}*i0 - {2} + {5}] if %5 %7 = constant {0} 1 %8 = where %5, %6, %7 store %8 }}
output %y)",
                                           type, rows, width, rows + 2, inside, column));
    if (reversed) return;
    names.push_back(names.back() + "_pairs");
    compiled.add(names.back(), fmt::format(R"(graph g
input %x: {0}[{1}, {2}]
%z: {0}[{3}] = pointwise {{ {4}
  %6 = load %x[{2}*i0 - {2}] if %5 %7 = load %x[{2}*i0 - 1] if %5
  %8 = constant {0} 3 %9 = mul %6, %8 %10 = add %9, %7 store %10 }}
output %z)",
                                           type, rows, width, rows + 2, inside));
  };
  for (const char* type : {"f32", "i64", "u8", "f16"}) {
    for (const int width : {2, 3, 5}) {
      for (const int rows : {8, 33}) add(type, rows, width, false), add(type, rows, width, true);
    }
  }
  compiled.build();
  for (const std::string& name : names) compiled.expect_like_interpreter(name, {}, 0);
}

// Sines of sines, of the same angle twice, and of an angle that is computed after another one's sine.
TEST(Kernels, AnglesInAnyOrder) {
  Compiled compiled;
  compiled.add("angles", R"(graph g
dim n in [1, 300]
input %x: f32[n]
%a: f32[n] = pointwise { %0 = load %x %1 = sin %0 store %1 }
%b: f32[n] = pointwise { %0 = load %a %1 = cos %0 store %1 }
%c: f32[n] = pointwise { %0 = load %a %1 = constant f32 3 %2 = mul %0, %1 %3 = sin %2 store %3 }
%d: f32[n] = pointwise { %0 = load %x %1 = cos %0 store %1 }
output %a output %b output %c output %d)");
  compiled.build();
  for (const int n : {1, 17, 300}) compiled.expect_like_interpreter("angles", {{"n", n}});
}

TEST(Kernels, RefuseOtherCalls) {
  EXPECT_THAT(kernel_refusal("input %x: f16[2, 3]\n%v: f16[2, 1], %p: i64[2, 1] = extern \"top_k\" reads(%x) "
                             "attributes(largest = 1)\noutput %v output %p"),
              HasSubstr("takes float32, float64 and integers"));
  EXPECT_THAT(kernel_refusal("input %x: f32[2, 3]\n%v: f32[2, 4], %p: i64[2, 4] = extern \"top_k\" reads(%x) "
                             "attributes(largest = 1)\noutput %v output %p"),
              HasSubstr("takes at most all elements of a row"));
  EXPECT_THAT(kernel_refusal("input %x: f32[2]\n%y: f32[2] = extern \"roi_align\" reads(%x)\noutput %y"),
              HasSubstr("takes three tensors"));
  const std::string data =
      "input %x: f32[1, 2, 1] input %p: i64[1, 3] input %u: f32[1, 3, 1]\n%y: f32[1, 2, 1] = ";
  EXPECT_THAT(kernel_refusal(data + "extern \"scatter\" reads(%x, %p, %u) attributes(reduction = \"last\")\n"
                                    "output %y"),
              HasSubstr("one of none, add, mul, max and min"));
  EXPECT_THAT(kernel_refusal(data + "extern \"scatter\" reads(%u, %p, %u) attributes(reduction = \"add\")\n"
                                    "output %y"),
              HasSubstr("takes data [b, r, w]"));
  EXPECT_THAT(kernel_refusal("input %x: f16[1, 2, 1]\n%y: f16[1, 2, 1] = extern \"cumulative\" reads(%x) "
                             "attributes(exclusive = 0, product = 0, reverse = 0)\noutput %y"),
              HasSubstr("takes float32, float64 and integers"));
  EXPECT_THAT(
      kernel_refusal("input %x: f32[1, 2, 1]\n%y: f32[1, 2, 1] = extern \"cumulative\" reads(%x)\noutput %y"),
      HasSubstr("needs the integers exclusive, product and reverse"));
}

}  // namespace
}  // namespace braid::test
