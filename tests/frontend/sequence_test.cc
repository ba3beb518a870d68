// Sequences and optional values disappear while compiling; what is left are tensors.
#include <gmock/gmock.h>

#include "ir/error_numbers.h"
#include "ir/interpreter.h"
#include "tests/frontend/models.h"

namespace braid::frontend {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> run(const std::string& body, const ImportOptions& options = {}, int opset = 18,
                       const std::string& x = "float[5] x", std::vector<std::int64_t> sizes = {5}) {
  const ir::Schedule schedule = import_text("g (" + x + ") => (float[n] y) { " + body + " }", options, opset);
  std::vector<float> values(static_cast<std::size_t>(ir::make_tensor(ir::DType::f32, sizes).numel()));
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(k + 1);
  const std::vector<std::vector<ir::Tensor>> inputs = {{ir::make_tensor(ir::DType::f32, sizes, values)}};
  return ir::run(schedule, inputs).outputs[0][0].values<float>();
}

ir::UserError sequence_error(const std::string& graph) {
  return error_of([&] { import_text(graph, {}, 18); });
}

const std::string kTwos = "two = Constant <value = int64 {2}> () s = SplitToSequence(x, two) ";

TEST(Sequences, PartsOfATensor) {
  EXPECT_THAT(run(kTwos + "p = Constant <value = int64 {1}> () y = SequenceAt(s, p)"), ElementsAre(3, 4));
  EXPECT_THAT(run(kTwos + "p = Constant <value = int64 {-1}> () y = SequenceAt(s, p)"), ElementsAre(5));
  EXPECT_THAT(run("k = Constant <value = int64[2] {1, 4}> () s = SplitToSequence(x, k) "
                  "p = Constant <value = int64 {1}> () y = SequenceAt(s, p)"),
              ElementsAre(2, 3, 4, 5));
}

TEST(Sequences, ElementsAreInsertedAndErased) {
  EXPECT_THAT(
      run(kTwos + "z = Constant <value = int64 {0}> () t = SequenceInsert(s, x, z) u = SequenceErase(t, two) "
                  "y = ConcatFromSequence <axis = 0> (u)"),
      ElementsAre(1, 2, 3, 4, 5, 1, 2, 5));
  EXPECT_THAT(run("e = SequenceEmpty() a = SequenceInsert(e, x) n = Neg(x) b = SequenceInsert(a, n) c = "
                  "SequenceErase(b) "
                  "y = ConcatFromSequence <axis = -1> (c)"),
              ElementsAre(1, 2, 3, 4, 5));
}

TEST(Sequences, AreStackedAlongANewAxis) {
  EXPECT_THAT(
      run("s = SplitToSequence <keepdims = 0> (x) t = ConcatFromSequence <axis = 0, new_axis = 1> (s) "
          "n = Neg(t) u = SequenceConstruct(t, n) v = ConcatFromSequence <axis = 1, new_axis = 1> (u) "
          "m = Constant <value = int64[1] {-1}> () y = Reshape(v, m)"),
      ElementsAre(1, -1, 2, -2, 3, -3, 4, -4, 5, -5));
}

TEST(Sequences, TheLengthIsAConstant) {
  EXPECT_THAT(run(kTwos + "n = SequenceLength(s) m = Constant <value = int64[1] {0}> () k = Unsqueeze(n, m) "
                          "f = Constant <value = float {7}> () y = Expand(f, k)"),
              ElementsAre(7, 7, 7));
}

TEST(Sequences, ElementsMayHaveDynamicSizes) {
  EXPECT_THAT(
      run("a = Neg(x) s = SequenceConstruct(x, a) i = Identity(s) p = Constant <value = int64 {1}> () "
          "y = SequenceAt(i, p)",
          {.dims = {{"length", {1, 9}}}}, 18, "float[length] x", {3}),
      ElementsAre(-1, -2, -3));
}

TEST(Sequences, OptionalValuesDecideBranches) {
  EXPECT_THAT(run("o = Optional(x) h = OptionalHasElement(o) y = If (h) "
                  "<then_branch = t () => (float[n] a) { a = OptionalGetElement(o) }, "
                  "else_branch = f () => (float[n] b) { b = Neg(x) }>"),
              ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(run("h = OptionalHasElement() y = If (h) <then_branch = t () => (float[n] a) { a = Abs(x) }, "
                  "else_branch = f () => (float[n] b) { b = Neg(x) }>"),
              ElementsAre(-1, -2, -3, -4, -5));
}

TEST(Sequences, PositionsAtRunTimeAreRefused) {
  const ir::UserError error = sequence_error(
      "g (float[5] x, int64 p) => (float[n] y) { s = SequenceConstruct(x, x) [choice] y = SequenceAt(s, p) "
      "}");
  EXPECT_EQ(error.code(), errors::kDataDependentSize);
  EXPECT_THAT(error.what(), HasSubstr("choice"));
}

TEST(Sequences, PositionsOutOfRangeAreRefused) {
  const auto code = [](const std::string& op) {
    return sequence_error(
               "g (float[5] x) => (float[n] y) { p = Constant <value = int64 {-3}> () "
               "s = SequenceConstruct(x, x) " +
               op + " }")
        .code();
  };
  EXPECT_EQ(code("y = SequenceAt(s, p)"), errors::kIndexOutOfRange);
  EXPECT_EQ(code("t = SequenceErase(s, p) y = ConcatFromSequence <axis = 0> (t)"), errors::kIndexOutOfRange);
  EXPECT_EQ(code("t = SequenceInsert(s, x, p) y = ConcatFromSequence <axis = 0> (t)"),
            errors::kIndexOutOfRange);
}

TEST(Sequences, EmptyOnesHaveNothingToGive) {
  EXPECT_EQ(
      sequence_error(
          "g (float[5] x) => (float[n] y) { s = SequenceEmpty() y = ConcatFromSequence <axis = 0> (s) }")
          .code(),
      errors::kInvalidNode);
  EXPECT_EQ(sequence_error("g (float[5] x) => (float[n] y) { s = SequenceEmpty() t = SequenceErase(s) "
                           "y = ConcatFromSequence <axis = 0> (t) }")
                .code(),
            errors::kIndexOutOfRange);
}

TEST(Sequences, AreNoOutputsOfAProgram) {
  const ir::UserError error =
      sequence_error("g (float[5] x) => (seq(float[5]) y) { y = SequenceConstruct(x, x) }");
  EXPECT_EQ(error.code(), errors::kUnsupportedType);
  EXPECT_THAT(error.what(), HasSubstr("'y'"));
}

}  // namespace
}  // namespace braid::frontend
