// Attention: text, types, and the interpreter against numbers that can be checked by hand and against
// products and loops.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/element.h"
#include "ir/printer.h"
#include "ir/scalar.h"
#include "ir/verifier.h"
#include "passes/expand_attention.h"
#include "tests/support/interpreter_runs.h"
#include "tests/support/random.h"
#include "tests/support/random_attention.h"
#include "tests/support/random_tensors.h"

namespace braid::ir {
namespace {

std::vector<double> numbers(const Tensor& t) {
  std::vector<double> out;
  for (std::int64_t k = 0; k < t.numel(); ++k)
    out.push_back(to_scalar(read_element(t.dtype, t.bytes.data() + k * size_of(t.dtype))).d);
  return out;
}

constexpr DType kTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16};

TEST(AttentionKernel, IsReadBackFromItsText) {
  for (int k = 0; k < test::random_cases(300); ++k) {
    const std::uint64_t seed = test::first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Schedule s = test::random_attention(seed, kTypes[seed % 4]).schedule;
    ASSERT_TRUE(verify(s).empty());
    const std::string text = print(s);
    ASSERT_EQ(print(parse_schedule(text)), text);
  }
}

// Runs queries of one element 0: scores are 0, so weights are equal and the result is the mean of the values
// attended to.
std::vector<float> means(const std::string& form, std::vector<Tensor> more = {}, int queries = 3) {
  const std::string text = fmt::format(
      "graph main input %q: f32[1, 1, {0}, 1] input %k: f32[1, 1, 4, 1] input %v: f32[1, 1, 4, 1]\n{1}\n"
      "%y: f32[1, 1, {0}, 1] = attention %q, %k, %v {2}\noutput %y",
      queries, form.substr(0, form.find('|')), form.substr(form.find('|') + 1));
  std::vector<Tensor> inputs = {
      f32({1, 1, queries, 1}, std::vector<float>(static_cast<std::size_t>(queries), 0)),
      f32({1, 1, 4, 1}, {5, 6, 7, 8}), f32({1, 1, 4, 1}, {0, 4, 8, 24})};
  inputs.insert(inputs.end(), more.begin(), more.end());
  return run_one(text, inputs)[0].values<float>();
}

TEST(AttentionKernel, AttendsToWhatItsFormSays) {
  using V = std::vector<float>;
  EXPECT_EQ(means("|"), (V{9, 9, 9}));
  EXPECT_EQ(means("|after 0"), (V{0, 2, 4}));
  EXPECT_EQ(means("|first_position 1 after 0"), (V{2, 4, 9}));
  EXPECT_EQ(means("|first_position -1 after 0"), (V{0, 0, 2}));  // the first row attends to nothing
  EXPECT_EQ(means("|before 0 after 0"), (V{0, 4, 8}));
  EXPECT_EQ(means("|before 1 after 1"), (V{2, 4, 12}));
  EXPECT_EQ(means("|before 0"), (V{9, 12, 16}));
  EXPECT_EQ(means("|before -1 after 1"), (V{4, 8, 24}));
  EXPECT_EQ(means("input %n: i64[1] | valid_keys %n", {i64({1}, {2})}), (V{2, 2, 2}));
  EXPECT_EQ(means("input %n: i64[1] | valid_keys %n", {i64({1}, {-7})}), (V{0, 0, 0}));
  EXPECT_EQ(means("input %n: i64[1] | valid_keys %n", {i64({1}, {std::numeric_limits<std::int64_t>::max()})}),
            (V{9, 9, 9}));
  EXPECT_EQ(means("input %p: i64[1] | positions %p after 0", {i64({1}, {2})}), (V{4, 9, 9}));
  EXPECT_EQ(means("input %p: i64[1] | positions %p after 0",
                  {i64({1}, {std::numeric_limits<std::int64_t>::max()})}),
            (V{9, 9, 9}));
  EXPECT_EQ(means("input %p: i64[1] | positions %p after 0",
                  {i64({1}, {std::numeric_limits<std::int64_t>::min()})}),
            (V{0, 0, 0}));
  const std::string mask = "input %m: bool[1, 1, 1, 4] | mask %m [1, 1, 3, 4] strides [0, 0, 0, 1]";
  EXPECT_EQ(means(mask, {boolean({1, 1, 1, 4}, {1, 0, 1, 0})}), (V{4, 4, 4}));
  EXPECT_EQ(means(mask, {boolean({1, 1, 1, 4}, {0, 0, 0, 0})}), (V{0, 0, 0}));
  // A finite fill of all scores makes them equal.
  EXPECT_EQ(means(mask + " fill -10000.0", {boolean({1, 1, 1, 4}, {0, 0, 0, 0})}), (V{9, 9, 9}));
  EXPECT_EQ(means("input %m: f32[1, 1, 1, 4] | mask %m [1, 1, 3, 4] strides [0, 0, 0, 1]",
                  {f32({1, 1, 1, 4}, {0, -std::numeric_limits<float>::infinity(), 0, 0})}),
            (V{32.0f / 3, 32.0f / 3, 32.0f / 3}));
}

// Two keys whose scores differ by log 3 after scale and softcap.
TEST(AttentionKernel, ScalesAndCapsScores) {
  const auto one = [](const std::string& form, float query) {
    return run_one(
               "graph main input %q: f32[1, 1, 1, 1] input %k: f32[1, 1, 2, 1] input %v: f32[1, 1, 2, 1]\n"
               "%y: f32[1, 1, 1, 1] = attention %q, %k, %v " +
                   form + "\noutput %y",
               {f32({1, 1, 1, 1}, {query}), f32({1, 1, 2, 1}, {0, 1}), f32({1, 1, 2, 1}, {0, 4})})[0]
        .values<float>()[0];
  };
  EXPECT_NEAR(one("", std::log(3.0f)), 3, 1e-6);
  EXPECT_NEAR(one("scale 0.25", 4 * std::log(3.0f)), 3, 1e-6);
  // 2 * tanh(x / 2) = log 3
  EXPECT_NEAR(one("softcap 2.0", 2 * std::atanh(std::log(3.0f) / 2)), 3, 1e-5);
}

TEST(AttentionKernel, HeadsShareKeys) {
  const auto out = run_one(
      "graph main input %q: f32[1, 4, 1, 1] input %k: f32[1, 2, 1, 1] input %v: f32[1, 2, 1, 1]\n"
      "%y: f32[1, 4, 1, 1] = attention %q, %k, %v\noutput %y",
      {f32({1, 4, 1, 1}, {1, 2, 3, 4}), f32({1, 2, 1, 1}, {1, 1}), f32({1, 2, 1, 1}, {7, 9})});
  EXPECT_EQ(out[0], f32({1, 4, 1, 1}, {7, 7, 9, 9}));
}

TEST(AttentionKernel, NotANumberStaysInItsRow) {
  const float nan = std::nanf("");
  const auto out =
      run_one(
          "graph main input %q: f32[1, 1, 2, 1] input %k: f32[1, 1, 2, 1] input %v: f32[1, 1, 2, 1]\n"
          "%y: f32[1, 1, 2, 1] = attention %q, %k, %v\noutput %y",
          {f32({1, 1, 2, 1}, {nan, 0}), f32({1, 1, 2, 1}, {1, 1}), f32({1, 1, 2, 1}, {7, 9})})[0]
          .values<float>();
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_EQ(out[1], 8);
}

// A row of scores that are all -inf, one with a score of NaN, one with a score of +inf, and an ordinary one.
TEST(AttentionKernel, RowsWithoutASoftmaxAreWhatTheirClauseSays) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const auto rows = [&](const std::string& clause) {
    const std::string text =
        "graph main input %q: f32[1, 1, 4, 1] input %k: f32[1, 1, 2, 1] input %v: f32[1, 1, 2, 1]\n"
        "input %m: f32[1, 1, 4, 2]\n%y: f32[1, 1, 4, 1] = attention %q, %k, %v mask %m " +
        clause + "\noutput %y";
    const std::vector<Tensor> inputs = {f32({1, 1, 4, 1}, {0, 0, 0, 0}), f32({1, 1, 2, 1}, {1, 1}),
                                        f32({1, 1, 2, 1}, {7, 9}),
                                        f32({1, 1, 4, 2}, {-inf, -inf, nan, 0, inf, 0, 0, 0})};
    Schedule expanded = parse_schedule(text);
    passes::ExpandAttention().run(expanded);
    std::string out;
    for (const float x : run_one(text, inputs)[0].values<float>()) out += fmt::format("{} ", std::abs(x));
    std::string other;
    for (const float x : run_one(print(expanded), inputs)[0].values<float>())
      other += fmt::format("{} ", std::abs(x));
    EXPECT_EQ(out, other);
    return out;
  };
  EXPECT_EQ(rows(""), "0 nan nan 8 ");
  EXPECT_EQ(rows("undefined zero_if_masked"), "0 nan nan 8 ");
  EXPECT_EQ(rows("undefined nan"), "nan nan nan 8 ");
  EXPECT_EQ(rows("undefined zero"), "0 0 0 8 ");
}

// Products and loops, which other code makes, compute the same.
TEST(AttentionKernel, IsWhatItsExpansionComputes) {
  for (int k = 0; k < test::random_cases(1000); ++k) {
    const std::uint64_t seed = test::first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE("seed " + std::to_string(seed));
    const DType type = seed % 4 == 0 ? DType::f32 : kTypes[seed / 4 % 4];
    const test::RandomWindows program = test::random_attention(seed, type);
    const std::vector<std::vector<Tensor>> inputs = {
        test::random_inputs(program.schedule.graph, program.dims, seed)};
    Schedule expanded = program.schedule;
    ASSERT_TRUE(passes::ExpandAttention().run(expanded));
    ASSERT_TRUE(verify(expanded).empty());
    for (const OpId op : execution_order(expanded)) ASSERT_EQ(expanded.graph[op].as<Attention>(), nullptr);
    const Tensor got = run(program.schedule, inputs).outputs[0][0],
                 want = run(expanded, inputs).outputs[0][0];
    const double tolerance = type == DType::f64   ? 1e-12
                             : type == DType::f32 ? 1e-5
                             : type == DType::f16 ? 2e-3
                                                  : 2e-2;
    const std::vector<double> x = numbers(got), y = numbers(want);
    ASSERT_EQ(x.size(), y.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(x[i]) && std::isnan(y[i])) continue;
      ASSERT_NEAR(x[i], y[i], tolerance * std::max(1.0, std::abs(y[i]))) << "element " << i << "\n"
                                                                         << print(program.schedule);
    }
  }
}

TEST(AttentionKernel, WhatDoesNotFitIsRefused) {
  const auto text = [](const std::string& form, const std::string& query = "f32[1, 4, 3, 2]",
                       const std::string& key = "f32[1, 2, 5, 2]",
                       const std::string& result = "f32[1, 4, 3, 6]") {
    return "graph main dim n in [1, 4] input %q: " + query + " input %k: " + key +
           " input %v: f32[1, 2, 5, 6] input %b: bool[1, 4, 3, 5] input %f: f32[1, 4, 3, 5] input %r: "
           "i32[1]\n%y: " +
           result + " = attention %q, %k, %v " + form + " output %y";
  };
  parse_schedule(text("mask %b fill -3.0 valid_keys %r positions %r before n after 0"));
  parse_schedule(text("scale 0.5 softcap 2.0 mask %f first_position n before 2 * n after 0"));
  struct Refused {
    int code;
    const char* part;
    std::string text;
  };
  const Refused cases[] = {
      {512, "2 heads of the key do not divide 3",
       text("", "f32[1, 3, 3, 2]", "f32[1, 2, 5, 2]", "f32[1, 3, 3, 6]")},
      {512, "the key must have sizes [1, 2, 5, 3]", text("", "f32[1, 4, 3, 3]")},
      {512, "the value must have sizes [1, 2, 4, 6]", text("", "f32[1, 4, 3, 2]", "f32[1, 2, 4, 2]")},
      {512, "the result must have sizes [1, 4, 3, 6]",
       text("", "f32[1, 4, 3, 2]", "f32[1, 2, 5, 2]", "f32[1, 4, 3, 2]")},
      {512, "must have rank 4", text("", "f32[4, 3, 2]")},
      {505, "'k' is f16, expected f32", text("", "f32[1, 4, 3, 2]", "f16[1, 2, 5, 2]")},
      {505, "does not support i32", text("", "i32[1, 4, 3, 2]")},
      {505, "an attention in tf32 must have operands of f32, got f16 and f16",
       "graph main input %q: f16[1, 1, 1, 1]\n%y: f16[1, 1, 1, 1] = attention %q, %q, %q tf32 output %y"},
      {512, "the mask must have sizes [1, 4, 3, 5]", text("mask %q")},
      {505, "a mask must be bool or of a floating-point type",
       "graph main input %q: f32[1, 1, 1, 1] input %m: i32[1, 1, 1, 1]\n%y: f32[1, 1, 1, 1] = attention %q, "
       "%q, %q mask "
       "%m output %y"},
      {512, "the numbers of valid keys must have sizes [1]", text("valid_keys %q")},
      {505, "the positions must be i32 or i64",
       "graph main input %q: f32[1, 1, 1, 1] input %m: f32[1]\n%y: f32[1, 1, 1, 1] = attention %q, %q, %q "
       "positions %m "
       "after 0 output %y"},
      {511, "the scale of an attention must be finite", text("scale inf")},
      {511, "the softcap of an attention must be finite and not negative", text("softcap -1.0")},
      {511, "only an attention with a bool mask has a fill", text("mask %f fill -3.0")},
      {511, "the fill of an attention must be a number", text("mask %b fill nan")},
      {511, "an attention has positions, but no limits", text("positions %r")},
      {511, "an attention has positions, but no limits", text("first_position 3")},
      {506, "an attention must have one result",
       "graph main input %q: f32[1, 1, 1, 1]\n%y: f32[1, 1, 1, 1], %z: f32[1] = attention %q, %q, %q output "
       "%y"},
      {503, "unknown dimension 'output'", text("after")},
      {501, "expected a number", text("scale")},
      {501, "expected a buffer", text("mask")},
  };
  for (const Refused& c : cases) {
    SCOPED_TRACE(c.text);
    expect_user_error(c.code, c.part, [&] { parse_schedule(c.text); });
  }
}

}  // namespace
}  // namespace braid::ir
