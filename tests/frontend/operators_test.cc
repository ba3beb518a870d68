// Operators where random cases (reference_test.cc) do not look: accuracy where formulas cancel, the form of
// the lowered program, random numbers, and refusals.
#include <gmock/gmock.h>

#include <cmath>

#include "ir/error_numbers.h"
#include "ir/interpreter.h"
#include "passes/default_passes.h"
#include "passes/runner.h"
#include "tests/frontend/models.h"

namespace braid::frontend {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;

std::vector<ir::Tensor> run_program(const ir::Schedule& schedule, std::vector<ir::Tensor> inputs) {
  const std::vector<std::vector<ir::Tensor>> per_rank = {std::move(inputs)};
  return ir::run(schedule, per_rank).outputs[0];
}

std::vector<float> of_three(const std::string& op, const std::vector<float>& x, int opset = 18) {
  const ir::Schedule schedule =
      import_text("g (float[3] x) => (float[3] y) { y = " + op + "(x) }", {}, opset);
  return run_program(schedule, {ir::make_tensor(ir::DType::f32, {3}, x)})[0].values<float>();
}

ir::UserError operator_error(const std::string& graph, int opset = 18) {
  return error_of([&] { import_text(graph, {}, opset); });
}

TEST(Activations, KeepTheDigitsOfSmallArguments) {
  EXPECT_THAT(of_three("Elu", {-1e-7f, -1e-3f, 2}),
              ElementsAre(FloatEq(-1e-7f), FloatEq(static_cast<float>(std::expm1(-1e-3))), 2));
  EXPECT_THAT(of_three("Celu", {-1e-7f, 0, 2}), ElementsAre(FloatEq(-1e-7f), 0, 2));
  EXPECT_THAT(of_three("Softplus", {-20, 0, 1}),
              ElementsAre(FloatEq(static_cast<float>(std::log1p(std::exp(-20.0)))), FloatEq(std::log(2.0f)),
                          FloatEq(static_cast<float>(std::log1p(std::exp(1.0))))));
}

TEST(Activations, DoNotOverflow) {
  EXPECT_THAT(of_three("Softplus", {-1e30f, 1e30f, 100}), ElementsAre(0, 1e30f, 100));
  EXPECT_THAT(of_three("Mish", {-1e30f, 1e30f, 100}), ElementsAre(-0.0f, 1e30f, 100));
}

TEST(BitShift, ByAllBitsAndMoreIsZero) {
  const ir::Schedule schedule = import_text(
      "g (uint8[4] x, uint8[4] n) => (uint8[4] l, uint8[4] r) { l = BitShift <direction = \"LEFT\"> (x, n) "
      "r = BitShift <direction = \"RIGHT\"> (x, n) }");
  using Bytes = std::vector<std::uint8_t>;
  const auto out = run_program(schedule, {ir::make_tensor(ir::DType::u8, {4}, Bytes{255, 255, 255, 255}),
                                          ir::make_tensor(ir::DType::u8, {4}, Bytes{1, 7, 8, 200})});
  EXPECT_THAT(out[0].values<std::uint8_t>(), ElementsAre(254, 128, 0, 0));
  EXPECT_THAT(out[1].values<std::uint8_t>(), ElementsAre(127, 1, 0, 0));
}

const std::string kStatistics =
    "s = Constant <value = float[2] {2, 3}> () b = Constant <value = float[2] {1, 0}> () "
    "m = Constant <value = float[2] {1, 2}> () v = Constant <value = float[2] {3, 0}> () ";

TEST(BatchNormalization, OfConstantsIsTheEpilogueOfTheProductBefore) {
  ir::Schedule schedule =
      import_text("g (float[5, 4] x, float[4, 2] w) => (float[5, 2] y) { " + kStatistics +
                  "p = MatMul(x, w) y = BatchNormalization <epsilon = 1.0> (p, s, b, m, v) }");
  passes::run_passes(schedule, passes::default_passes(), {});
  int products = 0, loops = 0;
  for (const ir::Operation& op : schedule.graph.ops) {
    products += op.as<ir::Gemm>() != nullptr;
    loops += op.as<ir::Loops>() != nullptr;
  }
  EXPECT_EQ(products, 1);
  EXPECT_EQ(loops, 0);
}

TEST(BatchNormalization, OneProductAndOneSumPerElement) {
  const ir::Schedule schedule = import_text("g (float[1, 2, 2] x) => (float[1, 2, 2] y) { " + kStatistics +
                                            "y = BatchNormalization <epsilon = 1.0> (x, s, b, m, v) }");
  ASSERT_EQ(schedule.graph.ops.size(), 1u);
  EXPECT_EQ(schedule.graph.ops[0].as<ir::Loops>()->body.instrs.size(), 5u);  // three loads
  const auto out =
      run_program(schedule, {ir::make_tensor(ir::DType::f32, {1, 2, 2}, std::vector<float>{1, 3, 2, 5})});
  EXPECT_THAT(out[0].values<float>(), ElementsAre(1, 3, 0, 9));
}

TEST(Hardmax, MarksTheFirstMaximumOfTheMatrixThatOldVersionsSee) {
  const ir::Schedule schedule =
      import_text("g (float[2, 2, 2] x) => (float[2, 2, 2] y) { y = Hardmax(x) }", {}, 11);
  const auto out = run_program(
      schedule, {ir::make_tensor(ir::DType::f32, {2, 2, 2}, std::vector<float>{1, 3, 3, 0, 5, 5, 5, 5})});
  EXPECT_THAT(out[0].values<float>(), ElementsAre(0, 1, 0, 0, 1, 0, 0, 0));
}

// The first two outputs of SplitMix64 that starts at 0 are e220a8397b1dcdaf and 6e789e6aa1b965f4.
TEST(RmsNormalization, HasTheTypeOfItsScale) {
  for (const char* op : {"RMSNormalization", "SimplifiedLayerNormalization"}) {
    SCOPED_TRACE(op);
    const ir::Schedule schedule = import_text(
        "g (float[1,2] x, float[2] s) => (float[1,2] y) { h = Cast <to = 16> (x) y = " + std::string(op) +
            "(h, s) }",
        {}, 23);
    const auto out = run_program(schedule, {ir::make_tensor(ir::DType::f32, {1, 2}, std::vector<float>{1, 7}),
                                            ir::make_tensor(ir::DType::f32, {2}, std::vector<float>{5, 10})});
    EXPECT_EQ(out[0].dtype, ir::DType::f32);
    EXPECT_NEAR(out[0].values<float>()[0], 1, 1e-5);
    EXPECT_NEAR(out[0].values<float>()[1], 14, 1e-4);
  }
  EXPECT_EQ(
      operator_error(
          "g (float[1,2] x, float[2] s) => (float[1,2] y) { y = RMSNormalization <axis = 2> (x, s) }", 23)
          .code(),
      errors::kInvalidAttribute);
}

TEST(RandomNumbers, AreThoseOfTheDocumentedGenerator) {
  const ir::Schedule schedule =
      import_text("g () => (double[2] y) { y = RandomUniform <seed = 0.0, dtype = 11, shape = [2]> () }");
  EXPECT_THAT(run_program(schedule, {})[0].values<double>(),
              ElementsAre(0.8833108082136426, 0.43152799704850997));
}

TEST(RandomNumbers, HaveTheDistributionThatIsAskedFor) {
  const ir::Schedule schedule = import_text(
      "g (float[100, 100] x) => (float[100, 100] u, float[100, 100] n, float[100, 100] b) { "
      "u = RandomUniformLike <seed = 1.0, low = 2.0, high = 4.0> (x) "
      "n = RandomNormalLike <seed = 2.0, mean = 5.0, scale = 3.0> (x) b = Bernoulli <seed = 3.0> (x) }");
  const std::vector<float> quarters(10000, 0.25f);
  const auto out = run_program(schedule, {ir::make_tensor(ir::DType::f32, {100, 100}, quarters)});
  const auto mean_and_deviation = [](const std::vector<float>& values) {
    double sum = 0, squares = 0;
    for (const float v : values) sum += v, squares += static_cast<double>(v) * v;
    const double mean = sum / static_cast<double>(values.size());
    return std::pair(mean, std::sqrt(squares / static_cast<double>(values.size()) - mean * mean));
  };
  const auto uniform = out[0].values<float>();
  EXPECT_THAT(uniform, Each(::testing::AllOf(::testing::Ge(2.0f), ::testing::Le(4.0f))));
  EXPECT_NEAR(mean_and_deviation(uniform).first, 3, 0.03);
  EXPECT_NEAR(mean_and_deviation(uniform).second, 2 / std::sqrt(12.0), 0.03);
  EXPECT_NEAR(mean_and_deviation(out[1].values<float>()).first, 5, 0.15);
  EXPECT_NEAR(mean_and_deviation(out[1].values<float>()).second, 3, 0.1);
  EXPECT_THAT(out[2].values<float>(), Each(::testing::AnyOf(0.0f, 1.0f)));
  EXPECT_NEAR(mean_and_deviation(out[2].values<float>()).first, 0.25, 0.02);
}

TEST(RandomNumbers, DrawClassesByTheirWeights) {
  const ir::Schedule schedule = import_text(
      "g (float[1, 3] x) => (int32[1, 4000] y) { y = Multinomial <seed = 1.0, sample_size = 4000> (x) }");
  const float low = -INFINITY;
  const auto drawn =
      run_program(schedule, {ir::make_tensor(ir::DType::f32, {1, 3},
                                             std::vector<float>{std::log(1.0f), low, std::log(3.0f)})})[0]
          .values<std::int32_t>();
  EXPECT_THAT(drawn, Each(::testing::AnyOf(0, 2)));
  EXPECT_NEAR(static_cast<double>(std::count(drawn.begin(), drawn.end(), 0)) / 4000, 0.25, 0.03);
}

TEST(RandomNumbers, WithoutASeedAreRefused) {
  for (const std::string op : {"RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"}) {
    const ir::UserError error = operator_error("g (float[2, 2] x) => (float[n, m] z) { [drawn] y = " + op +
                                               "(x) z = Cast <to = 1> (y) }");
    EXPECT_EQ(error.code(), errors::kUnsupportedForm);
    EXPECT_THAT(error.what(), HasSubstr("drawn"));
    EXPECT_THAT(error.what(), HasSubstr("'seed' is missing"));
  }
}

// From operator set 14 on, the statistics of the input may be used (op_cases.py).
TEST(OperatorErrors, TrainingIsRefusedBeforeItWasAnAttribute) {
  EXPECT_EQ(operator_error("g (float[1, 2, 2] x) => (float[1, 2, 2] y) { " + kStatistics +
                               "y, rm, rv, sm, sv = BatchNormalization (x, s, b, m, v) }",
                           9)
                .code(),
            errors::kUnsupportedForm);
}

TEST(OperatorErrors, ImpossibleAttributes) {
  const auto code = [](const std::string& type, const std::string& op, int opset = 18) {
    return operator_error("g (" + type + " x) => (" + type + " y) { y = " + op + " (x) }", opset).code();
  };
  EXPECT_EQ(code("float[2]", "Celu <alpha = 0.0>"), errors::kInvalidAttribute);
  EXPECT_EQ(code("float[2]", "LpNormalization <p = 3>"), errors::kInvalidAttribute);
  EXPECT_EQ(code("float[1, 2, 1]", "GlobalLpPool <p = 0>"), errors::kInvalidAttribute);
  EXPECT_EQ(code("float[1, 2, 2]", "LRN <size = 0>"), errors::kInvalidAttribute);
  EXPECT_EQ(
      operator_error("g (uint8[2] x) => (uint8[2] y) { y = BitShift <direction = \"UP\"> (x, x) }").code(),
      errors::kInvalidAttribute);
  EXPECT_EQ(operator_error("g (uint8[2] x) => (int16[2] y) { y = BitCast <to = 5> (x) }", 26).code(),
            errors::kTypeMismatch);
  EXPECT_EQ(operator_error(
                "g (float[2, 3] x, int64[2] t) => (float y) { y = NegativeLogLikelihoodLoss <reduction = "
                "\"max\"> (x, t) }")
                .code(),
            errors::kInvalidAttribute);
}

TEST(OperatorErrors, ShapesThatDoNotFit) {
  const auto code = [](const std::string& graph, int opset = 21) {
    return operator_error(graph, opset).code();
  };
  EXPECT_EQ(
      code("g (float[1, 4, 2] x, float[4] s) => (float[n, m, k] y) { y = GroupNormalization <num_groups = 3> "
           "(x, s, s) }"),
      errors::kShapeMismatch);
  EXPECT_EQ(
      code("g (float[1, 4, 2] x, float[3] s) => (float[n, m, k] y) { y = InstanceNormalization (x, s, s) }"),
      errors::kShapeMismatch);
  EXPECT_EQ(code("g (float[2] x, float[3] s) => (float[n] y) { y = PRelu (x, s) }"), errors::kShapeMismatch);
  EXPECT_EQ(code("g (float[7, 7] x) => (float y) { y = Det (x) }"), errors::kUnsupportedForm);
}

}  // namespace
}  // namespace braid::frontend
