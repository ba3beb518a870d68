// If and Loop that are decided while the program runs.
#include <gmock/gmock.h>

#include <algorithm>
#include <utility>

#include "ir/error_numbers.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/default_passes.h"
#include "passes/runner.h"
#include "tests/frontend/models.h"
#include "tests/support/random_tensors.h"

namespace braid::frontend {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ir::Tensor flag(bool value, std::vector<std::int64_t> sizes = {}) {
  return ir::make_tensor<std::uint8_t>(ir::DType::boolean, std::move(sizes),
                                       {static_cast<std::uint8_t>(value)});
}
ir::Tensor number(std::int64_t value) { return ir::make_tensor<std::int64_t>(ir::DType::i64, {}, {value}); }

// The values of an output, as imported, read again from text, and after the passes with planned memory.
ir::Tensor result(const ir::Schedule& schedule, std::vector<ir::Tensor> inputs, std::size_t output = 0) {
  const std::vector<std::vector<ir::Tensor>> per_rank = {std::move(inputs)};
  const ir::Tensor want = ir::run(schedule, per_rank).outputs[0][output];
  for (const ir::Violation& v : ir::verify(schedule)) ADD_FAILURE() << v.node << ": " << v.message;
  EXPECT_EQ(ir::print(ir::parse_schedule(ir::print(schedule))), ir::print(schedule));
  ir::Schedule optimised = schedule;
  passes::run_passes(optimised, passes::default_passes());
  EXPECT_EQ(ir::run(optimised, per_rank, {.use_plan = true}).outputs[0][output], want)
      << ir::print(optimised);
  return want;
}
std::vector<float> run(const ir::Schedule& schedule, std::vector<ir::Tensor> inputs, std::size_t output = 0) {
  return result(schedule, std::move(inputs), output).values<float>();
}

TEST(IfAtRunTime, TakesTheBranchOfItsCondition) {
  const ir::Schedule schedule = import_text(
      "g (bool c, float[2] x) => (float[2] y, float[2] z) { y, z = If (c) <then_branch = t () => (float[2] "
      "a, float[2] "
      "a2) { a = Abs(x) a2 = Exp(a) }, else_branch = f () => (float[2] b, float[2] x2) { b = Neg(x) x2 = "
      "Identity(x) }> }");
  EXPECT_THAT(run(schedule, {flag(true), floats({2}, {1, -2})}), ElementsAre(1, 2));
  EXPECT_THAT(run(schedule, {flag(false), floats({2}, {1, -2})}), ElementsAre(-1, 2));
  EXPECT_THAT(run(schedule, {flag(false), floats({2}, {1, -2})}, 1), ElementsAre(1, -2));
}

// A branch may be the first reader of a value that is not computed yet. The value is computed before the If,
// since it is also read after the If or in the other branch.
TEST(IfAtRunTime, WhatIsReadInABranchFirstIsThereAfterIt) {
  const ir::Schedule schedule = import_text(
      "g (bool c, float[2,2] x) => (float[2,2] y, float[2,2] w) { e = Neg(x) r = ReduceMax <axes = [1]> (e) "
      "k = Constant <value = float[2] {1.0, 2.0}> () y = If (c) <then_branch = t () => (float[2,2] a) { m = "
      "MatMul(e, x) "
      "a = Add(m, r) }, else_branch = f () => (float[2,2] b) { b = Add(e, k) }> w = Add(r, k) }",
      {}, 17);
  const ir::Tensor x = floats({2, 2}, {1, -2, 3, 4});
  EXPECT_THAT(run(schedule, {flag(true), x}), ElementsAre(7, 12, -18, -13));
  EXPECT_THAT(run(schedule, {flag(false), x}), ElementsAre(0, 4, -2, -2));
  for (const bool c : {false, true})
    EXPECT_THAT(run(schedule, {flag(c), x}, 1), ElementsAre(3, 4, -2, -1)) << c;
}

TEST(IfAtRunTime, AConditionMayHaveOneElement) {
  const ir::Schedule schedule = import_text(
      "g (bool[1] c, float[n] x) => (float[n] y) { y = If (c) <then_branch = t () => (float[n] a) { a = "
      "Abs(x) }, "
      "else_branch = f () => (float[n] b) { b = Neg(x) }> }",
      {.dims = {{"n", {1, 4}}}});
  EXPECT_THAT(run(schedule, {flag(true, {1}), floats({3}, {1, -2, 3})}), ElementsAre(1, 2, 3));
  EXPECT_THAT(run(schedule, {flag(false, {1}), floats({1}, {5})}), ElementsAre(-5));
}

TEST(IfAtRunTime, MayBeNested) {
  const ir::Schedule schedule = import_text(
      "g (bool c, bool d, float[2] x) => (float[2] y) { w = Exp(x) y = If (c) <then_branch = t () => "
      "(float[2] a) { "
      "a = If (d) <then_branch = tt () => (float[2] aa) { aa = Add(w, w) }, else_branch = tf () => (float[2] "
      "ab) { "
      "p = Constant <value = float[2] {7.0, 8.0}> () ab = Mul(p, w) }> }, else_branch = f () => (float[2] b) "
      "{ b = "
      "Identity(w) }> }");
  for (const bool c : {false, true}) {
    for (const bool d : {false, true}) {
      const std::vector<float> got = run(schedule, {flag(c), flag(d), floats({2}, {0, 0})});
      EXPECT_THAT(got, ElementsAre(!c ? 1 : d ? 2 : 7, !c ? 1 : d ? 2 : 8)) << c << d;
    }
  }
}

TEST(IfAtRunTime, ResultsOfDifferentRanksAreRefused) {
  const auto error = error_of([] {
    import_text(
        "g (bool c, float[2] x) => (float[k] y) { [choice] y = If (c) <then_branch = t () => (float[2] a) { "
        "a = Abs(x) }, "
        "else_branch = f () => (float b) { b = ReduceSum <keepdims = 0> (x) }> }");
  });
  EXPECT_EQ(error.code(), errors::kUnsupportedForm);
  EXPECT_THAT(error.what(), HasSubstr("result 0 has rank 0 where the condition is false, and 1 otherwise"));
  EXPECT_THAT(error.what(), HasSubstr("choice"));
}

// With a value for the condition, only one branch is part of the program.
TEST(IfAtRunTime, ResultsOfDifferentSizesNeedTheCondition) {
  const ir::Schedule schedule = import_text(
      "g (bool c, float[2] x) => (float[k] y) { y = If (c) <then_branch = t () => (float[2] a) { a = Abs(x) "
      "}, "
      "else_branch = f () => (float[4] b) { b = Concat <axis = 0> (x, x) }> }",
      {.bindable = {{"c", flag(false)}}});
  EXPECT_THAT(run(schedule, {floats({2}, {1, 2})}), ElementsAre(1, 2, 1, 2));
}

// A branch that cannot be lowered fails only if it is taken.
TEST(IfAtRunTime, AnIllShapedBranchIsAnErrorOfTheStepThatTakesIt) {
  for (const bool good : {true, false}) {
    std::vector<std::string> notes;
    ImportOptions options;
    options.note = [&](const std::string& text) { notes.push_back(text); };
    const std::string
        fine = "() => (float[2] a) { a = Abs(x) }",
        ill = "() => (float[2] b) { w = Constant <value = float[3] {1, 2, 3}> () [odd] b = Add(x, w) }";
    const ir::Schedule schedule =
        import_text("g (bool c, float[2] x) => (float[2] y) { y = If (c) <then_branch = t " +
                        (good ? fine : ill) + ", else_branch = f " + (good ? ill : fine) + "> }",
                    options);
    EXPECT_THAT(notes, ElementsAre("a step that takes a branch of If fails: node 'odd' (Add): the size 2 can "
                                   "never be equal to 3"));
    EXPECT_THAT(run(schedule, {flag(good), floats({2}, {1, -2})}), ElementsAre(1, 2));
    const auto error = error_of([&] { run(schedule, {flag(!good), floats({2}, {1, -2})}); });
    EXPECT_EQ(error.code(), errors::kStepUndefined);
    EXPECT_THAT(error.what(), HasSubstr("odd: the size 2 can never be equal to 3"));
  }
}

TEST(IfAtRunTime, FailingBranchesMayBeNestedAndSeveral) {
  const std::string ill = "{ w = Constant <value = float[3] {1, 2, 3}> () NAME = Add(x, w) }";
  const auto named = [&](const std::string& name) {
    std::string text = ill;
    return text.replace(text.find("NAME"), 4, name);
  };
  const ir::Schedule schedule = import_text(
      "g (bool c, bool d, float[2] x) => (float[2] y, float[2] z) { y = If (c) <then_branch = t () => "
      "(float[2] a) "
      "{ a = If (d) <then_branch = tt () => (float[2] aa) { aa = Abs(x) }, else_branch = tf () => (float[2] "
      "ab) " +
      named("ab") + "> }, else_branch = f () => (float[2] b) " + named("b") +
      "> z = If (d) <then_branch = zt () => (float[2] e) " + named("e") +
      ", else_branch = zf () => (float[2] g0) { g0 = Neg(x) }> }");
  const auto outcome = [&](bool c, bool d) {
    const std::vector<std::vector<ir::Tensor>> inputs = {{flag(c), flag(d), floats({2}, {1, -2})}};
    try {
      ir::run(schedule, inputs);
      return std::string("ran");
    } catch (const ir::UserError& error) {
      return error.location().node;
    }
  };
  EXPECT_EQ(outcome(true, false), "ab: the size 2 can never be equal to 3");
  EXPECT_EQ(outcome(true, true), "e: the size 2 can never be equal to 3");
  EXPECT_EQ(outcome(false, false), "b: the size 2 can never be equal to 3");
}

TEST(IfAtRunTime, BothBranchesIllShapedIsAnErrorOfTheModel) {
  const std::string ill = "{ w = Constant <value = float[3] {1, 2, 3}> () [odd] r = Add(x, w) }";
  const auto error = error_of([&] {
    import_text("g (bool c, float[2] x) => (float[2] y) { y = If (c) <then_branch = t () => (float[2] r) " +
                ill + ", else_branch = f () => (float[2] r) " + ill + "> }");
  });
  EXPECT_EQ(error.code(), errors::kShapeMismatch);
  EXPECT_EQ(error.location().node, "odd");
}

TEST(If, ABranchThatIsNotTakenRefusesNothing) {
  const std::string text =
      "g (float[2] x) => (float[2] y) { c = Constant <value = bool {1}> () y = If (c) <then_branch = t () => "
      "(float[2] a) { a = Abs(x) }, else_branch = f () => (float[-2] b) BODY> }";
  for (const char* body : {"{ b = Unheard(x) }", "{ b = Neg <unheard = 3> (x) }", "{ b = Add(x) }"}) {
    std::string model = text;
    model.replace(model.find("BODY"), 4, body);
    EXPECT_EQ(import_text(model).nodes.size(), 1U) << body;
    // The same branch is refused where it is taken.
    model.replace(model.find("bool {1}"), 8, "bool {0}");
    model.replace(model.find("float[-2]"), 9, "float[2]");
    EXPECT_NE(error_of([&] { import_text(model); }).code(), 0) << body;
  }
}

TEST(IfAtRunTime, CommunicationInsideIsRefused) {
  const auto error = error_of([] {
    ImportOptions options;
    options.ranks = 2;
    import_text(
        "g (bool c, float[2] x) => (float[2] y) { y = If (c) <then_branch = t () => (float[2] a) { "
        "[talk] a = com.microsoft.AllReduce(x) }, else_branch = f () => (float[2] b) { b = Neg(x) }> }",
        options);
  });
  EXPECT_EQ(error.code(), errors::kUnsupportedForm);
  EXPECT_THAT(error.what(), HasSubstr("it communicates in a branch or loop"));
}

constexpr const char* kCount =
    "<body = b (int64 i, bool go, float[2] s, float[2] t) => (bool again, float[2] u, float[2] v) { "
    "u = Identity(t) v = Add(s, t) m = ReduceMax <keepdims = 0> (v) again = Less(m, limit) }>";

TEST(LoopAtRunTime, RunsWhileItsConditionHolds) {
  const ir::Schedule schedule = import_text(
      std::string(
          "g (int64 n, bool go, float limit, float[2] x) => (float[2] y, float[2] z) { y, z = Loop ") +
      kCount + " (n, go, x, x) }");
  const auto want = [](std::int64_t n, bool go, float limit) {  // Fibonacci numbers
    float a = 1, b = 1;
    for (std::int64_t k = 0; k < n && go; ++k) {
      a = std::exchange(b, a + b);
      go = b < limit;
    }
    return std::pair(a, b);
  };
  for (const std::int64_t n : {-3, 0, 1, 5, 100000}) {
    for (const bool go : {false, true}) {
      for (const float limit : {0.F, 10.F, 1000.F}) {
        const auto [a, b] = want(n, go, limit);
        const std::vector<ir::Tensor> inputs = {number(n), flag(go), floats({}, {limit}),
                                                floats({2}, {1, 1})};
        EXPECT_THAT(run(schedule, inputs), ElementsAre(a, a)) << n << go << limit;
        EXPECT_THAT(run(schedule, inputs, 1), ElementsAre(b, b)) << n << go << limit;
      }
    }
  }
}

// More copies than a program may have, and nothing to join: the program repeats it.
TEST(LoopAtRunTime, RunsAKnownButLargeNumberOfTimes) {
  const ir::Schedule schedule = import_text(
      "g (float[2] x) => (float[2] y) { n = Constant <value = int64 {5000}> () y = Loop "
      "<body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t) { d = Identity(c) one = Constant "
      "<value = float {1.0}> "
      "() t = Add(s, one) }> (n, \"\", x) }");
  EXPECT_THAT(run(schedule, {floats({2}, {1, 10})}), ElementsAre(5001, 5010));
}

TEST(LoopAtRunTime, ReadsElementsByItsIteration) {
  const ir::Schedule schedule = import_text(
      "g (int64 n, float[4,2] x) => (float[2] y) { zeros = Constant <value = float[2] {0.0, 0.0}> () y = "
      "Loop "
      "<body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t) { d = Identity(c) r = Gather(x, i) t "
      "= Add(s, r) }> "
      "(n, \"\", zeros) }");
  const ir::Tensor x = floats({4, 2}, {1, 10, 2, 20, 3, 30, 4, 40});
  EXPECT_THAT(run(schedule, {number(3), x}), ElementsAre(6, 60));
  EXPECT_THAT(run(schedule, {number(0), x}), ElementsAre(0, 0));
}

TEST(LoopAtRunTime, ValuesThatChangePlacesKeepTheirContents) {
  const ir::Schedule schedule = import_text(
      "g (int64 n, float[2] x) => (float[2] y, float[2] z) { w = Neg(x) y, z = Loop <body = b (int64 i, bool "
      "c, float[2] s, "
      "float[2] t) => (bool c, float[2] t, float[2] s) { }> (n, \"\", x, w) }");
  for (const std::int64_t n : {0, 1, 2, 3}) {
    EXPECT_THAT(run(schedule, {number(n), floats({2}, {1, 2})}), ElementsAre(n % 2 ? -1 : 1, n % 2 ? -2 : 2))
        << n;
    EXPECT_THAT(run(schedule, {number(n), floats({2}, {1, 2})}, 1),
                ElementsAre(n % 2 ? 1 : -1, n % 2 ? 2 : -2))
        << n;
  }
}

// Compares the model with n fixed, whose iterations are copied, and with n bounded, which the program
// repeats: the same bits.
void expect_like_copies(const std::string& graph, int opset = 17) {
  ImportOptions bounded;
  bounded.dims = {{"n", {0, 7}}};
  const ir::Schedule repeated = import_text(graph, bounded, opset);
  const auto has_region = [](const ir::Schedule& schedule) {
    const auto order = ir::execution_order(schedule);
    return std::any_of(order.begin(), order.end(),
                       [&](ir::OpId op) { return schedule.graph[op].as<ir::RegionKernel>() != nullptr; });
  };
  EXPECT_TRUE(has_region(repeated));
  for (const std::int64_t n : {1, 2, 7}) {
    ImportOptions fixed;
    fixed.dims = {{"n", {n, n}}};
    const ir::Schedule copied = import_text(graph, fixed, opset);
    EXPECT_FALSE(has_region(copied));
    const std::vector<std::vector<ir::Tensor>> inputs = {
        test::random_inputs(repeated.graph, {{"n", n}}, static_cast<std::uint64_t>(n))};
    const std::vector<ir::Tensor> want = ir::run(copied, inputs).outputs[0];
    for (std::size_t k = 0; k < want.size(); ++k) {
      EXPECT_EQ(result(repeated, inputs[0], k), want[k]) << "n = " << n << ", output " << k;
    }
  }
}

TEST(LoopAtRunTime, JoinsAsManyResultsAsASizeSays) {
  expect_like_copies(
      "g (float[n,2] x) => (float[2] y, float[a,2] z, int64[b,1] at) { shape = Shape(x) zero = Constant "
      "<value "
      "= int64 {0}> () count = Gather(shape, zero) start = Constant <value = float[2] {1.0, 2.0}> () y, z, "
      "at = "
      "Loop <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t, float[2] u, int64[1] j) { d = "
      "Identity(c) r = Gather(x, i) t = Add(s, r) u = Mul(s, r) axes = Constant <value = int64[1] {0}> () j "
      "= "
      "Unsqueeze(i, axes) }> (count, \"\", start) }");
}

TEST(LoopAtRunTime, WithoutIterationsItJoinsNothing) {
  const ir::Schedule schedule = import_text(
      "g (float[n,2] x) => (float[2] y, float[a,2] z) { shape = Shape(x) zero = Constant <value = int64 {0}> "
      "() "
      "count = Gather(shape, zero) start = Constant <value = float[2] {1.0, 2.0}> () y, z = Loop <body = b "
      "(int64 i, bool c, float[2] s) => (bool d, float[2] t, float[2] u) { d = Identity(c) t = Add(s, s) u = "
      "Identity(s) }> (count, \"\", start) }",
      {.dims = {{"n", {0, 7}}}});
  EXPECT_THAT(run(schedule, {floats({0, 2}, {})}), ElementsAre(1, 2));
  EXPECT_THAT(
      ir::run(schedule, std::vector<std::vector<ir::Tensor>>{{floats({0, 2}, {})}}).outputs[0][1].sizes,
      ElementsAre(0, 2));
  const ir::Schedule none = import_text(
      "g (float[2] x) => (float[2] y, float[a,2] z) { n = Constant <value = int64 {0}> () y, z = Loop <body "
      "= b "
      "(int64 i, bool c, float[2] s) => (bool d, float[2] t, float[2] u) { d = Identity(c) t = Add(s, s) u = "
      "Identity(s) }> (n, \"\", x) }");
  EXPECT_THAT(run(none, {floats({2}, {3, 4})}), ElementsAre(3, 4));
}

TEST(LoopAtRunTime, JoinsMoreResultsThanItWouldCopy) {
  const ir::Schedule schedule = import_text(
      "g (float[2] x) => (float[2] y, float[a,2] z) { n = Constant <value = int64 {2000}> () y, z = Loop "
      "<body = "
      "b (int64 i, bool c, float[2] s) => (bool d, float[2] t, float[2] u) { d = Identity(c) one = Constant "
      "<value = float {1.0}> () t = Add(s, one) u = Identity(s) }> (n, \"\", x) }");
  const std::vector<float> joined = run(schedule, {floats({2}, {0, 5})}, 1);
  ASSERT_EQ(joined.size(), 4000u);
  for (std::size_t k = 0; k < joined.size(); ++k)
    EXPECT_EQ(joined[k], static_cast<float>(k / 2) + (k % 2 == 0 ? 0 : 5));
}

TEST(LoopAtRunTime, MayJoinWithinAnotherLoop) {
  expect_like_copies(
      "g (float[n,2] x) => (float[2] y, float[a,b,2] z) { shape = Shape(x) zero = Constant <value = int64 "
      "{0}> () "
      "count = Gather(shape, zero) start = Constant <value = float[2] {1.0, 2.0}> () y, z = Loop <body = b "
      "(int64 i, bool c, float[2] s) => (bool d, float[2] t, float[e,2] u) { d = Identity(c) t, u = Loop "
      "<body "
      "= bb (int64 j, bool cc, float[2] ss) => (bool dd, float[2] tt, float[2] uu) { dd = Identity(cc) r = "
      "Gather(x, j) tt = Add(ss, r) uu = Mul(tt, r) }> (count, \"\", s) }> (count, \"\", start) }");
}

TEST(ScanAtRunTime, RunsOverASequenceOfAnyLength) {
  expect_like_copies(
      "g (float[n,3] x, float[2,n] w, float[3] start) => (float[3] y, float[a,3] z, float[2,b] v) { y, z, v "
      "= "
      "Scan <num_scan_inputs = 2, scan_input_axes = [0, 1], scan_output_axes = [0, -1], body = b (float[3] "
      "s, "
      "float[3] r, float[2] q) => (float[3] t, float[3] u, float[2] p) { t = Add(s, r) u = Mul(t, r) p = "
      "Neg(q) "
      "}> (start, x, w) }");
}

TEST(ScanAtRunTime, RunsBackwards) {
  expect_like_copies(
      "g (float[n,2] x, float[2] start) => (float[2] y, float[a,2] z, float[b,2] v) { y, z, v = Scan "
      "<num_scan_inputs = 1, scan_input_directions = [1], scan_output_directions = [0, 1], body = b "
      "(float[2] s, "
      "float[2] r) => (float[2] t, float[2] u, float[2] p) { half = Constant <value = float {0.5}> () h = "
      "Mul(s, "
      "half) t = Add(h, r) u = Identity(t) p = Identity(r) }> (start, x) }");
}

TEST(ScanAtRunTime, ScansElementsOfAnyType) {
  expect_like_copies(
      "g (int32[n] x, bool[n] m) => (int32 y, bool[a] z, int32[b] v) { start = Constant <value = int32 {1}> "
      "() y, "
      "z, v = Scan <num_scan_inputs = 2, body = b (int32 s, int32 r, bool q) => (int32 t, bool u, int32 p) { "
      "t = "
      "Add(s, r) u = Not(q) p = Where(q, s, r) }> (start, x, m) }");
}

TEST(LoopAtRunTime, ValuesWhoseSizesChangeAreRefused) {
  const auto error = error_of([] {
    import_text(
        "g (int64 n, float[2] x) => (float[k] y) { y = Loop <body = b (int64 i, bool c, float[m] s) => (bool "
        "d, float[o] t) { d "
        "= Identity(c) t = Concat <axis = 0> (s, s) }> (n, \"\", x) }");
  });
  EXPECT_EQ(error.code(), errors::kUnsupportedForm);
  EXPECT_THAT(error.what(),
              HasSubstr("result 0 has size 4 after a run of the body along axis 0, and 2 otherwise"));
}

}  // namespace
}  // namespace braid::frontend
