// Random bodies with bytes in them: what the interpreter computes keeps its bits.
#include "passes/byte_tables.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/pass_context.h"
#include "tests/support/random.h"

namespace braid::passes {
namespace {

constexpr const char* kTypes[] = {"u8", "i8", "f32", "i32", "f16", "f64", "bool"};

// Values of several types, each computed from earlier ones: mostly from the last, so that chains are long.
std::string random_table_program(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::size_t n) { return random() % n; };
  std::string text =
      "graph main\ninput %x: u8[300]  input %z: i8[300]  input %f: f32[300]\n%y: @ = pointwise {\n";
  std::vector<std::string> types;
  const auto add = [&](const std::string& type, const std::string& instr) {
    text += fmt::format("  %{} = {}\n", types.size(), instr);
    types.push_back(type);
  };
  add("u8", "load %x"), add("i8", "load %z"), add("f32", "load %f");
  const auto pick = [&] { return below(3) == 0 ? below(types.size()) : types.size() - 1; };
  for (std::size_t n = 4 + below(20); n > 0; --n) {
    const std::size_t a = types.size() == 3 ? below(2) : pick();
    const std::string type = types[a];
    const bool floating = type[0] == 'f', number = type != "bool";
    if (below(3) == 0 || !number) {
      const std::string to = kTypes[below(std::size(kTypes))];
      if (to == type) continue;
      add(to, fmt::format("cast {} %{}", to, a));
    } else if (floating && below(2) == 0) {
      constexpr const char* unary[] = {"exp", "tanh", "sigmoid", "sqrt", "round", "abs", "neg", "erf"};
      add(type, fmt::format("{} %{}", unary[below(std::size(unary))], a));
    } else if (below(2) == 0) {
      add(type, fmt::format("constant {} {}", type, below(100)));
      constexpr const char* binary[] = {"add", "mul", "sub", "min", "max"};
      add(type, fmt::format("{} %{}, %{}", binary[below(std::size(binary))], a, types.size() - 1));
    } else {
      for (std::size_t b = types.size(); b-- > 0;) {
        if (types[b] != type || (b == a && below(4) != 0)) continue;
        add(type, fmt::format("{} %{}, %{}", below(2) == 0 ? "add" : "mul", a, b));
        break;
      }
    }
  }
  text += fmt::format("  store %{}\n}}\noutput %y\n", types.size() - 1);
  return text.replace(text.find('@'), 1, types.back() + "[300]");
}

TEST(ByteTables, RandomBodiesKeepTheirBits) {
  int changed = 0;
  const int cases = test::random_cases(2000);
  for (int i = 0; i < cases; ++i) {
    const std::uint64_t seed = test::first_seed() + static_cast<std::uint64_t>(i);
    const std::string text = random_table_program(seed);
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, text));
    ir::Schedule schedule = ir::parse_schedule(text, "test");
    std::mt19937_64 random(seed + 1);
    std::vector<ir::Tensor> inputs = {ir::make_tensor(ir::DType::u8, {300}),
                                      ir::make_tensor(ir::DType::i8, {300}),
                                      ir::make_tensor(ir::DType::f32, {300})};
    for (int t = 0; t < 2; ++t) {
      for (std::byte& b : inputs[static_cast<std::size_t>(t)].bytes) b = static_cast<std::byte>(random());
    }
    for (std::size_t k = 0; k < 300; ++k) {
      const auto value = static_cast<float>(static_cast<double>(random() % 4000) / 10 - 200);
      std::memcpy(inputs[2].bytes.data() + k * sizeof(float), &value, sizeof(float));
    }
    const std::vector<std::vector<ir::Tensor>> per_rank = {inputs};
    const auto before = ir::run(schedule, per_rank).outputs;
    PassContext context;
    const bool rewritten = ByteTables().run(schedule, context);
    changed += rewritten;
    ASSERT_TRUE(ir::verify(schedule).empty()) << ir::print(schedule);
    ASSERT_EQ(before, ir::run(schedule, per_rank).outputs) << ir::print(schedule);
    ASSERT_FALSE(ByteTables().run(schedule, context)) << "twice:\n" << ir::print(schedule);
  }
  EXPECT_GT(changed, cases / 20);
}

}  // namespace
}  // namespace braid::passes
