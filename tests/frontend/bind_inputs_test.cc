// Inputs that are bound to values where the compiler needs them.
#include "frontend/bind_inputs.h"

#include <gmock/gmock.h>

#include "ir/error_numbers.h"
#include "ir/interpreter.h"
#include "tests/frontend/models.h"

namespace braid::frontend {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

ir::Tensor int_vector(const std::vector<std::int64_t>& values) {
  return ir::make_tensor(ir::DType::i64, {static_cast<std::int64_t>(values.size())}, values);
}
ir::Tensor float_vector(const std::vector<float>& values) {
  return ir::make_tensor(ir::DType::f32, {static_cast<std::int64_t>(values.size())}, values);
}
std::vector<std::string> inputs_of(const ir::Schedule& schedule) {
  std::vector<std::string> names;
  for (const ir::GraphInput& input : schedule.graph.inputs) names.push_back(input.name);
  return names;
}

TEST(BindInputs, OnlyInputsBehindSizesBecomeConstants) {
  const ImportOptions options{
      .bindable = {{"x", float_vector({1, 2, 3, 4, 5, 6})}, {"sizes", int_vector({3, -1})}}};
  const ir::Schedule schedule =
      import_text("g (float[6] x, int64[2] sizes) => (float[r, c] y) { y = Reshape(x, sizes) }", options);
  EXPECT_THAT(inputs_of(schedule), ElementsAre("x"));
  const std::vector<std::vector<ir::Tensor>> inputs = {{options.bindable.at("x")}};
  EXPECT_THAT(ir::run(schedule, inputs).outputs[0][0].sizes, ElementsAre(3, 2));
}

TEST(BindInputs, AValueMayBeComputedFromSeveralInputs) {
  const ir::Schedule schedule = import_text(
      "g (float[6] x, int64[1] a, int64[1] b) => (float[r, c] y) { s = Concat <axis = 0> (a, b) y = "
      "Reshape(x, s) }",
      {.bindable = {{"a", int_vector({2})}, {"b", int_vector({3})}}});
  EXPECT_THAT(inputs_of(schedule), ElementsAre("x"));
}

// The size of x is known without its values.
TEST(BindInputs, SizesOfAnInputDoNotNeedItsValues) {
  const ir::Schedule schedule = import_text(
      "g (float[6] x, int64[1] a) => (float[r, c] y) { n = Shape(x) m = Div(n, a) s = Concat <axis = 0> (a, "
      "m) "
      "y = Reshape(x, s) }",
      {.bindable = {{"x", float_vector({1, 2, 3, 4, 5, 6})}, {"a", int_vector({2})}}});
  EXPECT_THAT(inputs_of(schedule), ElementsAre("x"));
}

TEST(BindInputs, AConditionThatDecidesSizesIsBoundToo) {
  const ir::Schedule schedule = import_text(
      "g (bool c, float[2] x) => (float[k] y) { y = If (c) <then_branch = t () => (float[4] a) { a = Concat "
      "<axis = 0> (x, x) "
      "}, "
      "else_branch = f () => (float[2] b) { b = Neg(x) }> }",
      {.bindable = {{"c", ir::make_tensor<std::uint8_t>(ir::DType::boolean, {}, {0})}}});
  EXPECT_THAT(inputs_of(schedule), ElementsAre("x"));
  const std::vector<std::vector<ir::Tensor>> inputs = {{float_vector({1, -2})}};
  EXPECT_THAT(ir::run(schedule, inputs).outputs[0][0].values<float>(), ElementsAre(-1, 2));
}

TEST(BindInputs, WithoutAValueTheSizeStaysUnknown) {
  const ir::UserError error = error_of([] {
    import_text("g (float[6] x, int64[2] sizes) => (float[r, c] y) { y = Reshape(x, sizes) }",
                {.bindable = {{"x", float_vector({1, 2, 3, 4, 5, 6})}}});
  });
  EXPECT_EQ(error.code(), errors::kDataDependentSize);
}

TEST(BindInputs, AValueOfAnotherTypeOrSizeIsRefused) {
  const auto code = [](const ir::Tensor& sizes) {
    return error_of([&] {
             import_text("g (float[6] x, int64[2] sizes) => (float[r, c] y) { y = Reshape(x, sizes) }",
                         {.bindable = {{"sizes", sizes}}});
           })
        .code();
  };
  EXPECT_EQ(code(float_vector({3, 2})), errors::kTypeMismatch);
  EXPECT_EQ(code(int_vector({1, 3, 2})), errors::kShapeMismatch);
}

// A dimension that only the bound input has needs no bounds and may have some.
TEST(BindInputs, BoundsOfTheirDimensionsAreDropped) {
  const std::string text = "g (float[6] x, int64[rank] sizes) => (float[r, c] y) { y = Reshape(x, sizes) }";
  EXPECT_NO_THROW(
      import_text(text, {.dims = {{"rank", {2, 2}}}, .bindable = {{"sizes", int_vector({3, 2})}}}));
}

TEST(BindInputs, InputsBehindAValueAreFoundThroughBranches) {
  Model model;
  model.proto = parse_model(
      "g (bool c, float[2] x, float[2] z, float[2] w) => (float[2] y, float[2] v) { n = Neg(x) y = If (c) "
      "<then_branch = t () => (float[2] a) { a = Abs(n) }, else_branch = f () => (float[2] b) { b = Neg(z) "
      "}> "
      "v = Abs(w) }");
  EXPECT_THAT(inputs_behind(model, "y"), UnorderedElementsAre("c", "x", "z"));
}

}  // namespace
}  // namespace braid::frontend
