// Products with an epilogue that the matrix library lacks (codegen/cuda/tile_product.h).
#include <fmt/format.h>

#include <random>

#include "codegen/cuda/target.h"
#include "codegen/cuda/tile_product.h"
#include "codegen/legalise.h"
#include "ir/parser.h"
#include "passes/default_passes.h"
#include "passes/expand_convolutions.h"
#include "passes/plan_memory.h"
#include "passes/runner.h"
#include "tests/codegen_cuda/cases.h"

namespace braid::test {
namespace {

struct Drawn {
  std::string type, declarations, a, b, result, epilogue;
};

// The parts of an epilogue: values of column, row and both, with several of them after erf.
std::string drawn_epilogue(int kind, const std::string& type, const std::string& index) {
  const std::string result = fmt::format("cast {} %9  return %10 }}", type);
  switch (kind) {
    case 0:  // GELU after a bias
      return "{ %0 = acc f32  %1 = load %bias[column]  %2 = cast f32 %1  %3 = add %0, %2  %4 = constant f32 "
             "0.70710678  "
             "%5 = mul %3, %4  %6 = erf %5  %7 = constant f32 1.0  %8 = add %6, %7  %9 = mul %3, %8  %10 = " +
             result;
    case 1:  // a gate: silu(sum) * values beside it
      return fmt::format(
                 "{{ %0 = acc f32  %1 = sigmoid %0  %2 = mul %0, %1  %3 = load %side[{0}]  %4 = cast f32 %3  "
                 "%5 = mul %2, %4  "
                 "%6 = constant f32 0.5  %7 = mul %5, %6  %8 = neg %7  %9 = neg %8  %10 = ",
                 index) +
             result;
    case 2:  // a mask of bytes, and a sum of the model's rounding
      return fmt::format(
                 "{{ %0 = acc f32  %1 = cast f16 %0  %2 = cast f32 %1  %3 = load %mask[{0}]  %4 = constant "
                 "f32 -2.0  "
                 "%5 = where %3, %2, %4  %6 = erf %5  %7 = load %bias[column]  %8 = cast f32 %7  %9 = add "
                 "%6, %8  %10 = ",
                 index) +
             result;
    default:  // a residual, and the row's number
      return fmt::format(
                 "{{ %0 = acc f32  %1 = load %side[{0}]  %2 = cast f32 %1  %3 = add %0, %2  %4 = index i64 "
                 "row  %5 = cast f32 %4  "
                 "%6 = constant f32 0.125  %7 = mul %5, %6  %8 = add %3, %7  %9 = tanh %8  %10 = ",
                 index) +
             result;
  }
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

}  // namespace

std::vector<TileProductCase> tile_product_cases() {
  std::vector<TileProductCase> out;
  constexpr std::uint64_t kCases = 18;
  for (std::uint64_t seed = 1; seed <= kCases; ++seed)
    out.push_back({fmt::format("tile_product_{}", seed), seed});
  return out;
}

// Operands by rows or by columns; one matrix, a batch with one right operand (rows of one matrix), a batch of
// pairs, or heads beside each other in memory.
ir::Schedule planned_tile_product(const TileProductCase& c) {
  std::mt19937_64 random(c.seed);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  const char* type = c.seed % 2 == 0 ? "f16" : "bf16";
  const std::string out_type = draw(0, 2) == 0 ? "f32" : type;
  const int k = 8 * draw(1, 30), n = 8 * draw(1, c.seed % 4 == 1 ? 8 : 36);
  const bool a_by_columns = c.seed % 5 == 0, b_by_columns = draw(0, 1) == 1;
  const int batch_kind = a_by_columns ? 2 * draw(0, 1) : draw(0, 4);
  std::string rows = a_by_columns ? std::to_string(8 * draw(1, 20)) : "rows";
  std::string text = "graph main  dim rows in [1, 300]  dim batch in [1, 3]\n";
  std::string batch, a_text, b_text, index;
  const std::string a_matrix = a_by_columns ? fmt::format("{}, {}", k, rows) : fmt::format("{}, {}", rows, k);
  const std::string b_matrix = b_by_columns ? fmt::format("{}, {}", n, k) : fmt::format("{}, {}", k, n);
  switch (batch_kind) {
    case 0:
      text += fmt::format("input %x: {0}[{1}]  input %w: {0}[{2}]\n", type, a_matrix, b_matrix);
      a_text = a_by_columns ? "transpose(%x)" : "%x";
      b_text = b_by_columns ? "transpose(%w)" : "%w";
      index = fmt::format("{}*i0 + i1", n);
      break;
    case 1:
      batch = "batch, ";
      text += fmt::format("input %x: {0}[batch, {1}]  input %w: {0}[{2}]\n", type, a_matrix, b_matrix);
      a_text = "%x";
      b_text = fmt::format("%w [batch, {0}, {1}] strides [0, {2}]", k, n,
                           b_by_columns ? fmt::format("1, {}", k) : fmt::format("{}, 1", n));
      index = fmt::format("{0}*rows*i0 + {0}*i1 + i2", n);
      break;
    case 2:
      batch = "batch, ";
      text += fmt::format("input %x: {0}[batch, {1}]  input %w: {0}[batch, {2}]\n", type, a_matrix, b_matrix);
      a_text = a_by_columns ? "transpose(%x)" : "%x";
      b_text = b_by_columns ? "transpose(%w)" : "%w";
      index = fmt::format("{0}*{1}*i0 + {0}*i1 + i2", n, rows);
      break;
    case 3:  // rows of one pixel each, as after a pool
      batch = "batch, rows, ";
      text += fmt::format("input %x: {0}[batch, rows, 1, {1}]  input %w: {0}[{2}]\n", type, k, b_matrix);
      a_text = "%x";
      b_text = fmt::format("%w [batch, rows, {0}, {1}] strides [0, 0, {2}]", k, n,
                           b_by_columns ? fmt::format("1, {}", k) : fmt::format("{}, 1", n));
      index = fmt::format("{0}*rows*i0 + {0}*i1 + i3", n);
      rows = "1";
      break;
    default:
      batch = "batch, 3, ";
      text += fmt::format("input %x: {0}[batch, rows, {1}]  input %w: {0}[3, {2}]\n", type, 3 * k, b_matrix);
      a_text = fmt::format("%x [batch, 3, rows, {0}] strides [{1}*rows, {0}, {1}, 1]", k, 3 * k);
      b_text = fmt::format("%w [batch, 3, {0}, {1}] strides [0, {2}, {3}]", k, n, k * n,
                           b_by_columns ? fmt::format("1, {}", k) : fmt::format("{}, 1", n));
      index = fmt::format("{0}*rows*i0*3 + {0}*rows*i1 + {0}*i2 + i3", n);
  }
  const auto rank = static_cast<int>(std::count(batch.begin(), batch.end(), ',')) + 2;
  const std::string sizes = fmt::format("{}{}, {}", batch, rows, n);
  text +=
      fmt::format("input %bias: {0}[{1}]  input %side: {0}[{2}]  input %mask: bool[{2}]\n", type, n, sizes);
  std::string epilogue = drawn_epilogue(draw(0, 3), out_type, index);
  epilogue = replaced(replaced(epilogue, "column", fmt::format("i{}", rank - 1)), " row ",
                      fmt::format(" i{} ", rank - 2));
  text += fmt::format("%y: {}[{}] output = gemm {}, {} epilogue {}\noutput %y\n", out_type, sizes, a_text,
                      b_text, epilogue);
  ir::Schedule schedule = ir::parse_schedule(text, c.name);
  passes::run_passes(schedule, passes::default_passes());
  return schedule;
}

namespace {

// a along the depth and b across it; more steps than tiles in flight, and parts of tiles at each end.
ir::Schedule mutated() {
  ir::Schedule schedule = ir::parse_schedule(R"(graph main  dim batch in [1, 2]  dim rows in [1, 100]
input %x: f16[batch, rows, 168]  input %w: f16[168, 72]
%y: f16[batch, rows, 72] = gemm %x, %w [batch, 168, 72] strides [0, 72, 1] epilogue {
  %0 = acc f32  %1 = erf %0  %2 = mul %0, %1  %3 = cast f16 %2  return %3 }
output %y
)");
  passes::run_passes(schedule, passes::default_passes());
  return schedule;
}

}  // namespace

std::vector<TileProductCase> tile_convolution_cases() {
  std::vector<TileProductCase> out;
  constexpr std::uint64_t kCases = 18;
  for (std::uint64_t seed = 1; seed <= kCases; ++seed)
    out.push_back({fmt::format("tile_convolution_{}", seed), seed});
  return out;
}

ir::Schedule of_convolution(const std::string& text) {
  ir::Schedule schedule = ir::parse_schedule(text);
  passes::ExpandConvolutions{.has_kernel = codegen::cuda::prefers_tile_convolution}.run(schedule);
  passes::run_passes(schedule, passes::default_passes());
  codegen::legalise(schedule, codegen::cuda::kernel_limits());
  passes::PlanMemory().run(schedule);
  return schedule;
}

// One or two dimensions, any strides, dilations and padding, groups, and images inside larger ones.
ir::Schedule planned_tile_convolution(const TileProductCase& c) {
  std::mt19937_64 random(c.seed);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  const char* type = c.seed % 2 == 0 ? "f16" : "bf16";
  const int spatial = c.seed % 4 == 3 ? 1 : 2, groups = c.seed % 5 == 0 ? 3 : 1;
  const int channels = 8 * draw(1, 7), filters = 8 * draw(1, groups == 1 ? 18 : 4);
  std::string text = "graph main  dim images in [1, 3]  dim width in [9, 40]\n";
  std::string image = "images", taps, result = "images", strides, dilations, pads, index;
  for (int d = 0; d < spatial; ++d) {
    const bool dynamic = d + 1 == spatial;
    const int size = draw(9, 14), t = draw(1, 3) + (d == 0 && c.seed == 8 ? 8 : 0), stride = draw(1, 3),
              dilation = t > 3 ? 1 : draw(1, 2), pad = draw(0, 3);
    const std::string from = dynamic ? "width" : std::to_string(t > 3 ? size + 8 : size);
    image += ", " + from;
    taps += fmt::format("{}, ", t);
    const int covered = dilation * (t - 1) + 1;
    result += dynamic ? fmt::format(", floordiv(width + {}, {}) + 1", 2 * pad - covered, stride)
                      : fmt::format(", {}", ((t > 3 ? size + 8 : size) + 2 * pad - covered) / stride + 1);
    const auto add = [](std::string& list, int value) {
      list += (list.empty() ? "" : ", ") + std::to_string(value);
    };
    add(strides, stride), add(dilations, dilation), add(pads, pad);
  }
  const int all = groups * filters;
  text += fmt::format("input %x: {0}[{1}, {2}]  input %w: {0}[{3}, {4}{5}, {6}]\n", type, image,
                      groups * channels, groups, taps, channels, filters);
  text += fmt::format("input %bias: {0}[{1}]  input %side: {0}[{2}, {1}]\n", type, all, result);
  const char* const epilogues[] = {
      "\n",
      " epilogue { %0 = acc f32  %1 = load %bias[LAST]  %2 = cast f32 %1  %3 = add %0, %2  %4 = load "
      "%side[ALL]  "
      "%5 = cast f32 %4  %6 = add %3, %5  %7 = constant f32 0.0  %8 = max %6, %7  %9 = cast TYPE %8  return "
      "%9 }\n",
      " epilogue { %0 = acc f32  %1 = sigmoid %0  %2 = mul %0, %1  %3 = cast TYPE %2  return %3 }\n"};
  std::string all_indices;
  for (int d = 0; d < spatial + 2; ++d) all_indices += fmt::format("{}i{}", d == 0 ? "" : ", ", d);
  std::string epilogue = epilogues[draw(0, 2)];
  epilogue = replaced(replaced(epilogue, "LAST", fmt::format("i{}", spatial + 1)), "TYPE", type);
  epilogue = replaced(epilogue, "ALL", all_indices);
  text += fmt::format("%y: {}[{}, {}] = convolution %x, %w stride [{}] dilation [{}] pad [{}]{}output %y\n",
                      type, result, all, strides, dilations, pads, epilogue);
  return of_convolution(text);
}

void add_tile_product_cases(std::vector<Case>& out) {
  out.push_back({"tile_convolution_mutated",
                 [] {
                   return of_convolution(R"(graph main  dim images in [1, 2]  dim width in [9, 40]
input %x: f16[images, 8, width, 24]  input %w: f16[1, 3, 3, 24, 40]
%y: f16[images, 8, width, 40] = convolution %x, %w dilation [2, 2] pad [2, 2] output %y
)");
                 },
                 {},
                 "tile_products"});
  for (const TileProductCase& c : tile_convolution_cases())
    out.push_back({c.name, [c] { return planned_tile_convolution(c); }, {}, "tile_products"});
  out.push_back({"tile_product_mutated", mutated, {}, "tile_products"});
  for (const TileProductCase& c : tile_product_cases())
    out.push_back({c.name, [c] { return planned_tile_product(c); }, {}, "tile_products"});
}

}  // namespace braid::test
