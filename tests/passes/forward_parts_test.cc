// Random concatenations and their readers, straight, transposed and by single rows: the interpreter's results
// keep their bits.
#include "passes/forward_parts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "tests/support/random.h"

namespace braid::passes {
namespace {

constexpr int kShort = 4, kLong = 8;  // sides of the tensor, so that a square of it can be read transposed
constexpr int kElements = kLong * kLong;

// A tensor of kShort by kLong whose columns lie in parts, or of kLong by kShort and rows.
std::string random_parts_program(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
  const bool rows = below(2) == 0;
  const int height = rows ? kLong : kShort, width = rows ? kShort : kLong;
  std::string text = fmt::format("graph main\ninput %x: i64[{0}, {0}]  input %z: i64[{0}, {0}]\n", kLong);
  text += fmt::format("buffer %t: i64[{}, {}]\n", height, width);
  std::vector<int> borders = {0, 1 + below(kLong - 2), kLong};
  if (below(2) == 0) borders.insert(borders.end() - 1, borders[1] + 1 + below(kLong - borders[1] - 1));
  for (std::size_t p = 0; p + 1 < borders.size(); ++p) {
    const int size = borders[p + 1] - borders[p];
    text += fmt::format("%p{}: i64[{}, {}] in %t at {} strides [{}, 1] = pointwise {{\n", p,
                        rows ? size : kShort, rows ? kShort : size, borders[p] * (rows ? width : 1), width);
    const std::string index = below(6) == 0 ? "i0 + 8*i1" : "8*i0 + i1";
    text += fmt::format("  %0 = load %{}[{} + {}]\n", below(2) == 0 ? "x" : "z", index,
                        below(kLong - std::max(size, kShort) + 1));
    text += fmt::format("  %1 = {} %0\n  store %1\n}}\n", below(2) == 0 ? "neg" : "abs");
  }
  // A piece of the long side with all of the short one; squares can be read transposed, too.
  const int piece = below(3) > 0 ? kShort : 1 + below(kLong);
  text += fmt::format("%y: i64[{}, {}] = pointwise {{\n", rows ? piece : kShort, rows ? kShort : piece);
  const int loads = 1 + below(2);
  for (int k = 0; k < loads; ++k) {
    const int at = below(kLong - piece + 1) * (rows ? width : 1);
    const bool turned = piece == kShort && below(2) == 0;
    text += fmt::format("  %{} = load %t[{}*{} + {} + {}]\n", k, width, turned ? "i1" : "i0",
                        turned ? "i0" : "i1", at);
  }
  text += fmt::format("  %{} = index i64 7*i0 + 3*i1\n", loads);
  int last = loads;
  for (int k = 0; k < loads; ++k, ++last) text += fmt::format("  %{} = sub %{}, %{}\n", last + 1, last, k);
  return text + fmt::format("  store %{}\n}}\noutput %y\n", last);
}

TEST(ForwardParts, RandomReadersKeepTheirBits) {
  int changed = 0;
  const int cases = test::random_cases(2000);
  std::vector<std::int64_t> x(kElements), z(kElements);
  for (int i = 0; i < kElements; ++i) {
    x[static_cast<std::size_t>(i)] = 1000 + i;
    z[static_cast<std::size_t>(i)] = -100000 - 10 * i;
  }
  const std::vector<std::vector<ir::Tensor>> inputs = {{ir::make_tensor(ir::DType::i64, {kLong, kLong}, x),
                                                        ir::make_tensor(ir::DType::i64, {kLong, kLong}, z)}};
  for (int i = 0; i < cases; ++i) {
    const std::uint64_t seed = test::first_seed() + static_cast<std::uint64_t>(i);
    const std::string text = random_parts_program(seed);
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, text));
    ir::Schedule schedule = ir::parse_schedule(text, "test");
    ASSERT_TRUE(ir::verify(schedule).empty());
    const auto before = ir::run(schedule, inputs).outputs;
    changed += ForwardParts().run(schedule);
    ASSERT_TRUE(ir::verify(schedule).empty()) << ir::print(schedule);
    ASSERT_EQ(before, ir::run(schedule, inputs).outputs) << ir::print(schedule);
  }
  EXPECT_GT(changed, cases / 10);
}

}  // namespace
}  // namespace braid::passes
