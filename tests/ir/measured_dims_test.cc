// Dimensions that a step measures: text, legality, order, and the interpreter.
#include "ir/measured_dims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/dependencies.h"
#include "ir/error.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/default_passes.h"
#include "passes/runner.h"
#include "tests/support/user_error.h"

namespace braid::ir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Copies the first n elements of x, twice each; n is an input's value.
constexpr const char* kMeasuredPrefix = R"(graph main
dim n in [0, 5]

input %x: f32[5]
input %count: i64[]

measure n %count from "nz"
%y: f32[n, 2] = pointwise {
  %0 = load %x[i0]
  store %0
}
%sum: f32[2] = reduction sum over [n] {
  %0 = load %y[i0 + 2*i1]
  store %0
}

output %y
output %sum
)";

std::vector<Tensor> run_prefix(const Schedule& schedule, std::int64_t n) {
  const std::vector<std::vector<Tensor>> inputs = {
      {make_tensor(DType::f32, {5}, std::vector<float>{1, 2, 3, 4, 5}),
       make_tensor(DType::i64, {}, std::vector<std::int64_t>{n})}};
  return run(schedule, inputs).outputs[0];
}

TEST(MeasuredDims, TheTextRoundTrips) {
  const Schedule schedule = parse_schedule(kMeasuredPrefix);
  EXPECT_EQ(print(schedule), kMeasuredPrefix);
  EXPECT_THAT(verify(schedule), IsEmpty());
  ASSERT_EQ(schedule.graph.measures.size(), 1u);
  EXPECT_EQ(schedule.graph[schedule.graph.measures[0]].name, "n.measured");
}

TEST(MeasuredDims, ResultsHaveTheMeasuredSizes) {
  Schedule optimised = parse_schedule(kMeasuredPrefix);
  passes::run_passes(optimised, passes::default_passes(), {});
  for (const Schedule& schedule : {parse_schedule(kMeasuredPrefix), optimised}) {
    for (std::int64_t n = 0; n <= 5; ++n) {
      const std::vector<Tensor> out = run_prefix(schedule, n);
      EXPECT_THAT(out[0].sizes, ElementsAre(n, 2));
      const auto sum = static_cast<float>(n * (n + 1) / 2);
      EXPECT_THAT(out[1].values<float>(), ElementsAre(sum, sum));
    }
  }
}

TEST(MeasuredDims, AValueBeyondTheBoundsIsAnErrorOfTheStep) {
  const Schedule schedule = parse_schedule(kMeasuredPrefix);
  EXPECT_THAT(test::error_of([&] { run_prefix(schedule, 6); }),
              HasSubstr("BR0302: node 'nz': dimension 'n' is 6, more than its capacity of 5"));
  EXPECT_THAT(test::error_of([&] { run_prefix(schedule, -1); }),
              HasSubstr("dimension 'n' is -1, less than 0"));
}

TEST(MeasuredDims, GuardsOverThemHoldAfterTheLastMeasure) {
  const Schedule schedule = parse_schedule(R"(graph g dim n in [0, 5] dim m in [0, 5] guard n == m from "add"
input %a: i64[] input %b: i64[] input %x: f32[5]
measure n %a measure m %b
%y: f32[n] = pointwise { %0 = load %x[i0] %1 = load %x[m - n + i0] %2 = add %0, %1 store %2 }
output %y)");
  const auto step = [&](std::int64_t a, std::int64_t b) {
    const auto number = [](std::int64_t k) {
      return make_tensor(DType::i64, {}, std::vector<std::int64_t>{k});
    };
    const std::vector<std::vector<Tensor>> inputs = {{number(a), number(b), make_tensor(DType::f32, {5})}};
    return run(schedule, inputs).outputs[0][0].sizes;
  };
  EXPECT_THAT(step(3, 3), ElementsAre(3));
  EXPECT_THAT(test::error_of([&] { step(3, 2); }),
              HasSubstr("BR0303: node 'add': n == m does not hold: 3 and 2"));
}

TEST(MeasuredDims, WhatMentionsThemComesAfterTheirMeasure) {
  const Schedule schedule = parse_schedule(kMeasuredPrefix);
  const Dependencies dependencies = find_op_dependencies(schedule, {});
  bool found = false;
  for (const Dependency& d : dependencies.predecessors(1))
    found |= d.node == 0 && d.hazard == Hazard::structure;
  EXPECT_TRUE(found);
  Schedule swapped = schedule;
  std::swap(swapped.nodes[0], swapped.nodes[1]);
  const std::vector<Violation> violations = verify(swapped);
  ASSERT_FALSE(violations.empty());
  EXPECT_EQ(violations[0].rule, "order");
  EXPECT_EQ(violations[0].message, "comes before 'n.measured' measures 'n'");
}

TEST(MeasuredDims, TextsThatCannotWorkAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"graph g dim n in [0, 5] input %x: f32[n] input %c: i64[] measure n %c output %x",
       "measures 'n', which is a size of the input 'x'"},
      {"graph g dim n in [0, 5] input %c: i64[] measure n %c measure n %c as again output %c",
       "measures 'n' a second time"},
      {"graph g dim n in [0, 5] input %c: i32[] measure n %c output %c",
       "the value of a measured dimension must be an i64 scalar"},
      {"graph g dim n in [0, 5] input %c: i64[1] measure n %c output %c",
       "the value of a measured dimension must be an i64 scalar"},
      {"graph g dim n in [0, 5] input %c: i64[] measure n + 1 %c as m output %c", "which is no dimension"},
      {"graph g dim n in [0, 5] input %c: i64[] %y: i64[] = measure n %c output %y",
       "a measure has no results"},
  };
  for (const auto& [text, message] : cases)
    EXPECT_THAT(test::error_of([&, text = text] { parse_schedule(text); }), HasSubstr(message)) << text;
}

TEST(MeasuredDims, NeitherRegionsMeasureNorCollectivesMentionThem) {
  const auto first = [](const char* text) {
    const std::vector<Violation> found = verify(parse_schedule(text));
    return found.empty() ? std::string("legal") : found[0].message;
  };
  EXPECT_EQ(first(R"(graph g dim n in [0, 5] input %c: i64[] input %x: f32[5]
%y: f32[5] = call (%c, %x) { measure n %c %z: f32[5] = pointwise { %0 = load %x store %0 } yield %z }
output %y)"),
            "a region must not measure a dimension");
  EXPECT_EQ(first(R"(graph g dim n in [0, 5] ranks 2 group @all = [0, 1] input %c: i64[] input %x: f32[5]
measure n %c
%y: f32[n] = pointwise { %0 = load %x[i0] store %0 }
%z: f32[n] = all_reduce sum @all (%y) blocking
output %z)"),
            "the sizes of a collective depend on 'n', which ranks measure for themselves");
}

}  // namespace
}  // namespace braid::ir
