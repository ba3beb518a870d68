// Inputs that are bound to values where the compiler needs them.
#include "frontend/bind_inputs.h"

#include <gmock/gmock.h>

#include <cmath>

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

ir::Tensor literal(const std::vector<double>& values) {
  return ir::make_tensor(ir::DType::f64, {static_cast<std::int64_t>(values.size())}, values);
}

TEST(FixedInputs, BecomeConstantsThatFold) {
  const ir::Schedule schedule = import_text(
      "g (float[6] x, int64[2] sizes, float s) => (float[r, c] y) { z = Mul(x, s) y = Reshape(z, sizes) }",
      {.fixed = {{"sizes", {int_vector({3, 2})}}, {"s", {ir::make_tensor<float>(ir::DType::f32, {}, {2})}}}});
  EXPECT_THAT(inputs_of(schedule), ElementsAre("x"));
  const std::vector<std::vector<ir::Tensor>> inputs = {{float_vector({1, 2, 3, 4, 5, 6})}};
  const ir::Tensor y = ir::run(schedule, inputs).outputs[0][0];
  EXPECT_THAT(y.sizes, ElementsAre(3, 2));
  EXPECT_THAT(y.values<float>(), ElementsAre(2, 4, 6, 8, 10, 12));
}

// The condition need not decide a size.
TEST(FixedInputs, DecideWhichBranchIsTaken) {
  const ir::Schedule schedule = import_text(
      "g (bool c, float[2] x) => (float[2] y) { y = If (c) <then_branch = t () => (float[2] a) { a = Abs(x) "
      "}, else_branch = f () => (float[2] b) { b = com.example.None(x) }> }",
      {.fixed = {{"c", {ir::make_tensor<std::int64_t>(ir::DType::i64, {}, {1}), true}}}});
  EXPECT_THAT(inputs_of(schedule), ElementsAre("x"));
  EXPECT_EQ(schedule.nodes.size(), 1U);
}

TEST(FixedInputs, FixTheDimensionsThatTheyName) {
  const std::string text =
      "g (float[n, 2] x, float[n] w) => (float[n, 2] y) { a = Constant <value = int64[1] {1}> () u = "
      "Unsqueeze(w, a) y = Add(x, u) }";
  const ir::Schedule schedule = import_text(text, {.fixed = {{"w", {float_vector({1, 2, 3})}}}});
  EXPECT_TRUE(schedule.graph[schedule.graph.inputs[0].buffer].sizes[0].is_constant(3));
  const ir::UserError error = error_of([&] {
    import_text(text, {.dims = {{"n", {1, 2}}}, .fixed = {{"w", {float_vector({1, 2, 3})}}}});
  });
  EXPECT_EQ(error.code(), errors::kFixedInput);
  EXPECT_THAT(error.what(), ::testing::HasSubstr("'n' is 1..2 along axis 0"));
}

TEST(FixedInputs, LiteralsTakeTheTypeOfTheInput) {
  const std::string text =
      "g (float[2] x, TYPE[2] w) => (float[2] y) { v = Cast <to = 1> (w) y = Add(x, v) }";
  const auto sum = [&](const std::string& type, const std::vector<double>& values) {
    std::string model = text;
    model.replace(model.find("TYPE"), 4, type);
    const ir::Schedule schedule = import_text(model, {.fixed = {{"w", {literal(values), true}}}});
    const std::vector<std::vector<ir::Tensor>> inputs = {{float_vector({0, 0})}};
    return ir::run(schedule, inputs).outputs[0][0].values<float>();
  };
  EXPECT_THAT(sum("float", {0.5, 3}), ElementsAre(0.5F, 3));
  EXPECT_THAT(sum("float16", {0.5, 3}), ElementsAre(0.5F, 3));
  EXPECT_THAT(sum("double", {0.5, 3}), ElementsAre(0.5F, 3));
  EXPECT_THAT(sum("int8", {-128, 3}), ElementsAre(-128, 3));
  EXPECT_THAT(sum("uint64", {7, 3}), ElementsAre(7, 3));
  EXPECT_THAT(sum("bool", {1, 0}), ElementsAre(1, 0));
  for (const auto& [type, values] :
       std::initializer_list<std::pair<const char*, std::vector<double>>>{{"int8", {128, 0}},
                                                                          {"int8", {0.5, 0}},
                                                                          {"uint8", {-1, 0}},
                                                                          {"bool", {2, 0}},
                                                                          {"int64", {1e19, 0}},
                                                                          {"int32", {std::nan(""), 0}},
                                                                          {"float", {1, 2, 3}}})
    EXPECT_EQ(error_of([&] { sum(type, values); }).code(), errors::kFixedInput) << type;
}

TEST(FixedInputs, UnknownNamesAndOtherTypesAreRefused) {
  const auto message = [](const FixedInputs& fixed) {
    const ir::UserError error = error_of([&] {
      import_text("g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }", {.fixed = fixed});
    });
    EXPECT_EQ(error.code(), errors::kFixedInput);
    return error.message() + "; " + error.hint();
  };
  EXPECT_EQ(message({{"v", {float_vector({1, 2})}}}),
            "input 'v' cannot be fixed: the model has no such input; it has x, w");
  EXPECT_EQ(message({{"w", {int_vector({1, 2})}}}),
            "input 'w' cannot be fixed: its value is i64, but it is f32; give a value of the input's type");
  EXPECT_EQ(message({{"w", {float_vector({1, 2, 3})}}}),
            "input 'w' cannot be fixed: its value has the shape [3], but its size along axis 0 is 2; `braid "
            "inspect` shows the shapes of inputs");
}

}  // namespace
}  // namespace braid::frontend
