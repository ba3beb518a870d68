// Models of operator sets before 7. The pytorch-* suites of ONNX (docs/onnx-support.md) hold whole ones.
#include "frontend/convert_version.h"

#include <gmock/gmock.h>

#include "ir/error_numbers.h"
#include "ir/interpreter.h"
#include "tests/frontend/models.h"

namespace braid::frontend {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<ir::Tensor> run(const std::string& graph, int opset, std::vector<ir::Tensor> inputs) {
  const std::vector<std::vector<ir::Tensor>> per_rank = {std::move(inputs)};
  return ir::run(import_text(graph, {}, opset), per_rank).outputs[0];
}

TEST(OldModels, AttributesOfOldVersionsAreConverted) {
  const auto out =
      run("g (float[2, 3] x) => (float[3, 2] y) { r = Reshape <shape = [3, 2]> (x) y = Relu <consumed_inputs "
          "= [1]> (r) "
          "}",
          1, {floats({2, 3}, {1, -2, 3, -4, 5, -6})});
  EXPECT_THAT(out[0].sizes, ElementsAre(3, 2));
  EXPECT_THAT(out[0].values<float>(), ElementsAre(1, 0, 3, 0, 5, 0));
}

// Constant was for floats only until operator set 9, and yet written for sizes.
TEST(OldModels, IntegerConstantsAreAccepted) {
  for (const int opset : {5, 6, 7, 8}) {
    const auto out = run(
        "g (float[6] x) => (float[3, 2] y) { c = Constant <value = int64[2] {3, 2}> () y = Reshape(x, c) }",
        opset, {floats({6}, {1, 2, 3, 4, 5, 6})});
    EXPECT_THAT(out[0].sizes, ElementsAre(3, 2));
  }
}

// The sizes do not tell along which axis the bias lies: it must be the one that the attribute names.
TEST(OldModels, ASecondOperandLiesAlongItsAxis) {
  for (const int opset : {1, 6}) {
    const auto out = run(
        "g (float[2, 2, 2] x, float[2] b) => (float[2, 2, 2] y) { y = Add <broadcast = 1, axis = 1> (x, b) }",
        opset, {floats({2, 2, 2}, {0, 0, 0, 0, 0, 0, 0, 0}), floats({2}, {1, 2})});
    EXPECT_THAT(out[0].values<float>(), ElementsAre(1, 1, 2, 2, 1, 1, 2, 2));
  }
  const auto out =
      run("g (float[2, 2] x, float[2] b) => (bool[2, 2] y) { y = Greater <broadcast = 1, axis = 0> (x, b) }",
          6, {floats({2, 2}, {1, 2, 3, 4}), floats({2}, {1, 3})});
  EXPECT_THAT(out[0].values<std::uint8_t>(), ElementsAre(0, 1, 0, 1));
}

TEST(OldModels, ASecondOperandThatDoesNotFitIsRefused) {
  const ir::UserError error = error_of([] {
    import_text(
        "g (float[2, 3] x, float[3] b) => (float[2, 3] y) { [sum] y = Add <broadcast = 1, axis = 2> (x, b) }",
        {}, 6);
  });
  EXPECT_EQ(error.code(), errors::kVersionConversion);
  EXPECT_THAT(error.what(), HasSubstr("sum"));
}

TEST(OldModels, AnOperatorWithoutARuleIsRefused) {
  const ir::UserError error = error_of(
      [] { import_text("g (float[2] x, float t, float a) => (float[4] y) { y = Tile(x, t, a) }", {}, 5); });
  EXPECT_EQ(error.code(), errors::kVersionConversion);
  EXPECT_THAT(error.what(), HasSubstr("Tile had operands of another form"));
}

TEST(OldModels, UnsupportedOperatorsAreNamedBeforeTheConversion) {
  const ir::UserError error = error_of([] {
    import_text("g (float[2] x, float t, float a) => (float[4] y) { r = Tile(x, t, a) [old] y = Cropped(r) }",
                {}, 5);
  });
  EXPECT_EQ(error.code(), errors::kUnsupportedOperators);
  EXPECT_THAT(error.what(), HasSubstr("old"));
}

TEST(OldModels, WeightsStayInitializers) {
  const ir::Schedule schedule = import_text(
      "g (float[2, 3] x) => (float[2, 2] y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {1, 2}> { y = "
      "Gemm "
      "<broadcast = 1> (x, w, b) }",
      {}, 6);
  EXPECT_EQ(schedule.graph.inputs.size(), 1u);
}

}  // namespace
}  // namespace braid::frontend
