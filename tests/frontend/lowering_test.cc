// Results of models, by the interpreter, on numbers small enough to check by head; and the text of lowered
// programs.
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>

#include "frontend/op_registry.h"
#include "ir/error_numbers.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "passes/default_passes.h"
#include "passes/runner.h"
#include "tests/frontend/models.h"
#include "tests/paths.h"

namespace braid::frontend {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

ir::Tensor ints(std::vector<std::int64_t> sizes, const std::vector<std::int64_t>& values) {
  return ir::make_tensor(ir::DType::i64, std::move(sizes), values);
}
std::vector<ir::Tensor> run_one(const ir::Schedule& schedule, std::vector<ir::Tensor> inputs) {
  const std::vector<std::vector<ir::Tensor>> per_rank = {std::move(inputs)};
  return ir::run(schedule, per_rank).outputs[0];
}
std::vector<ir::Tensor> run_optimised(ir::Schedule schedule, std::vector<ir::Tensor> inputs) {
  passes::run_passes(schedule, passes::default_passes(), {});
  return run_one(schedule, std::move(inputs));
}
int count_loops(const ir::Schedule& schedule) {
  int n = 0;
  for (const ir::Operation& op : schedule.graph.ops) n += op.as<ir::Loops>() != nullptr;
  return n;
}

constexpr char kZeroOne[] =
    "zero = Constant <value = int64 {0}> () one = Constant <value = int64[1] {0}> () ";

TEST(DynamicShapes, ReshapeFollowsShapeGatherConcat) {
  const std::string graph =
      std::string("g (float[batch, 2, 3] x) => (float[batch, six] y) { ") + kZeroOne +
      "s = Shape(x) b = Gather(s, zero) b1 = Unsqueeze(b, one) rest = Constant <value = int64[1] {-1}> () "
      "t = Concat <axis = 0> (b1, rest) y = Reshape(x, t) }";
  const ir::Schedule schedule = import_text(graph, {.dims = {{"batch", {1, 4}}}});
  EXPECT_TRUE(schedule.graph.guards.empty());
  const auto out = run_one(schedule, {floats({1, 2, 3}, {1, 2, 3, 4, 5, 6})});
  EXPECT_THAT(out[0].sizes, ElementsAre(1, 6));
}

TEST(DynamicShapes, RangeOverADimensionCountsPositions) {
  const ir::Schedule schedule = import_text(
      "g (float[length] x) => (int64[n] y) { s = Size(x) zero = Constant <value = int64 {0}> () one = "
      "Constant <value = int64 {1}> () "
      "y = Range(zero, s, one) }",
      {.dims = {{"length", {1, 9}}}});
  EXPECT_THAT(run_one(schedule, {floats({3}, {0, 0, 0})})[0].values<std::int64_t>(), ElementsAre(0, 1, 2));
}

TEST(DynamicShapes, SliceFromTheEnd) {
  const ir::Schedule schedule = import_text(
      "g (float[length] x) => (float[two] y) { b = Constant <value = int64[1] {-2}> () "
      "e = Constant <value = int64[1] {9223372036854775807}> () y = Slice(x, b, e) }",
      {.dims = {{"length", {2, 9}}}});
  EXPECT_THAT(run_one(schedule, {floats({4}, {1, 2, 3, 4})})[0].values<float>(), ElementsAre(3, 4));
}

TEST(DynamicShapes, FixedDimensionIsAConstant) {
  const ir::Schedule schedule = import_text("g (float[batch, 2] x) => (float[batch, 2] y) { y = Neg(x) }",
                                            {.dims = {{"batch", {3, 3}}}});
  EXPECT_TRUE(schedule.graph.dims.empty());
  EXPECT_EQ(schedule.graph[schedule.graph.outputs[0].buffer].sizes[0], ir::Expr(3));
}

TEST(DynamicShapes, UnnamedDimensionIsCalledAfterInputAndAxis) {
  const ir::Schedule schedule =
      import_text("g (float[2, ?] x) => (float[2, ?] y) { y = Neg(x) }", {.dims = {{"x_1", {1, 4}}}});
  EXPECT_EQ(to_string(schedule.graph[schedule.graph.outputs[0].buffer].sizes[1]), "x_1");
}

TEST(Gather, NegativeIndicesCountFromTheEnd) {
  const ir::Schedule schedule =
      import_text("g (float[3] x, int64[2] k) => (float[2] y) { y = Gather(x, k) }");
  EXPECT_THAT(run_one(schedule, {floats({3}, {10, 20, 30}), ints({2}, {-1, 0})})[0].values<float>(),
              ElementsAre(30, 10));
}

TEST(Gather, IndexOutOfRangeFailsTheStep) {
  const ir::Schedule schedule =
      import_text("g (float[3] x, int64[1] k) => (float[1] y) { y = Gather(x, k) }");
  EXPECT_THROW(run_one(schedule, {floats({3}, {10, 20, 30}), ints({1}, {3})}), ir::UserError);
}

TEST(Gather, PositionsWithinTheTableAreNotChecked) {
  const ir::Schedule schedule = import_text(
      "g (float[length] x, float[8, 2] table) => (float[n, 2] y) { s = Size(x) zero = Constant <value = "
      "int64 {0}> () "
      "one = Constant <value = int64 {1}> () p = Range(zero, s, one) y = Gather(table, p) }",
      {.dims = {{"length", {1, 8}}}});
  EXPECT_THAT(print(schedule), ::testing::Not(HasSubstr("check_index")));
}

TEST(Gather, PositionsThatMayLeaveTheTableAreChecked) {
  const ir::Schedule schedule = import_text(
      "g (float[length] x, float[8, 2] table) => (float[n, 2] y) { s = Size(x) zero = Constant <value = "
      "int64 {0}> () "
      "one = Constant <value = int64 {1}> () p = Range(zero, s, one) y = Gather(table, p) }",
      {.dims = {{"length", {1, 9}}}});
  EXPECT_THAT(print(schedule), HasSubstr("check_index"));
}

TEST(Div, IntegersTruncate) {
  const ir::Schedule schedule = import_text("g (int64[2] a, int64[2] b) => (int64[2] y) { y = Div(a, b) }");
  EXPECT_THAT(run_one(schedule, {ints({2}, {-7, 7}), ints({2}, {2, -2})})[0].values<std::int64_t>(),
              ElementsAre(-3, -3));
}

// From operator set 28 on; zeros have the divisor's sign, which ONNX's own cases do not compare.
TEST(Mod, FloatsTakeTheSignOfTheDivisor) {
  const std::string graph = "g (float[6] x, float[6] d) => (float[6] y) { y = Mod(x, d) }";
  const float infinity = std::numeric_limits<float>::infinity();
  const auto y = run_one(import_text(graph, {}, 28),
                         {floats({6}, {5, -5, 4, -4, 0, 2}), floats({6}, {-3, 3, -2, 2, -3, -infinity})})[0]
                     .values<float>();
  EXPECT_THAT(y, ElementsAre(-1, 1, 0, 0, 0, -infinity));
  for (const std::size_t k : {2, 4}) EXPECT_TRUE(std::signbit(y[k])) << k;
  EXPECT_FALSE(std::signbit(y[3]));
  EXPECT_EQ(error_of([&] { import_text(graph, {}, 27); }).code(), errors::kInvalidAttribute);
}

TEST(Softmax, LargeInputsDoNotOverflow) {
  const ir::Schedule schedule = import_text("g (float[2] x) => (float[2] y) { y = Softmax(x) }");
  EXPECT_THAT(run_one(schedule, {floats({2}, {1000, 1000})})[0].values<float>(), ElementsAre(0.5f, 0.5f));
}

TEST(Fusion, ChainsOfElementwiseOperatorsAreOneLoop) {
  EXPECT_EQ(count_loops(import_text(
                "g (float[4] x) => (float[4] y) { a = Neg(x) b = Exp(a) c = Add(b, x) y = Relu(c) }")),
            1);
}

TEST(Fusion, NormalizationReadsSharedValuesFromMemory) {
  EXPECT_LE(count_loops(import_text("g (float[2, 8] x) => (float[2, 8] y) <float[8] s = {1,1,1,1,1,1,1,1}> "
                                    "{ y = LayerNormalization(x, s) }")),
            4);
}

TEST(Folding, ConstantsAreComputedWhileCompiling) {
  const ir::Schedule schedule = import_text(
      "g (float[2] x) => (float[2] y) { c = Constant <value = float {64}> () r = Sqrt(c) y = Div(x, r) }");
  EXPECT_THAT(print(schedule), ::testing::Not(HasSubstr("sqrt")));
  EXPECT_THAT(run_one(schedule, {floats({2}, {8, 16})})[0].values<float>(), ElementsAre(1, 2));
}

TEST(DeadCode, UnusedNodesAreNotLowered) {
  EXPECT_EQ(
      import_text("g (float[2,2] x) => (float[2,2] y) { unused = MatMul(x, x) y = Neg(x) }").graph.ops.size(),
      1u);
}

TEST(DeadCode, CollectivesStayWhereNobodyReadsTheirResult) {
  const ir::Schedule schedule = import_text(
      "g (float[2] x) => (float[2] y) { unused = com.microsoft.AllReduce(x) y = Neg(x) }", {.ranks = 2});
  EXPECT_THAT(print(schedule), HasSubstr("all_reduce"));
}

TEST(Collectives, AllReduceOverOneRankIsNothing) {
  EXPECT_EQ(import_text("g (float[2] x) => (float[2] y) { s = com.microsoft.AllReduce(x) y = Neg(s) }")
                .graph.ops.size(),
            1u);
}

TEST(Collectives, OwnDomainTakesReductionAxisAndGroup) {
  const ir::Schedule schedule = import_text(
      "g (float[2,2] x) => (float[2,1] y) { y = ai.braid.ReduceScatter <axis = 1, reduce_op = \"max\", group "
      "= [1, 0]> (x) }",
      {.ranks = 2});
  const std::vector<std::vector<ir::Tensor>> inputs = {{floats({2, 2}, {1, 2, 3, 4})},
                                                       {floats({2, 2}, {4, 3, 2, 1})}};
  const auto out = ir::run(schedule, inputs).outputs;
  EXPECT_THAT(out[1][0].values<float>(), ElementsAre(4, 3));  // rank 1 is first in the group
  EXPECT_THAT(out[0][0].values<float>(), ElementsAre(3, 4));
}

TEST(PerRankFiles, EqualWeightsAreSharedAndOthersAreNot) {
  const std::string text =
      "g (float[2] x) => (float[2] y) <float[2] same = {1, 2}, float[2] own = {3, 4}> { a = Mul(x, same) y = "
      "Add(a, own) }";
  std::string other = text;
  other.replace(other.find("{3, 4}"), 6, "{5, 6}");
  const TemporaryFolder folder;
  folder.write("m.rank0.onnx", parse_model(text));
  folder.write("m.rank1.onnx", parse_model(other));
  const ir::Schedule schedule = import_model(folder.file("m.rank{rank}.onnx"), {.ranks = 2});
  for (const ir::Storage& storage : schedule.graph.storages) {
    if (storage.name == "same") {
      EXPECT_TRUE(storage.data.same_on_all_ranks());
    } else if (storage.name == "own") {
      EXPECT_EQ(storage.data.per_rank.size(), 2u);
    }
  }
  const std::vector<std::vector<ir::Tensor>> inputs = {{floats({2}, {1, 1})}, {floats({2}, {1, 1})}};
  const auto out = ir::run(schedule, inputs).outputs;
  EXPECT_THAT(out[0][0].values<float>(), ElementsAre(4, 6));
  EXPECT_THAT(out[1][0].values<float>(), ElementsAre(6, 8));
}

TEST(ExternalData, WeightsAreSpansOfTheMappedFile) {
  onnx::ModelProto model = parse_model("g (float[1,64] x) => (float[1,64] y) { y = MatMul(x, w) }");
  onnx::TensorProto& weight = *model.mutable_graph()->add_initializer();
  weight.set_name("w");
  weight.set_data_type(onnx::TensorProto::FLOAT);
  weight.add_dims(64);
  weight.add_dims(64);
  weight.set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] :
       {std::pair("location", "w.data"), std::pair("offset", "64"), std::pair("length", "16384")}) {
    onnx::StringStringEntryProto& entry = *weight.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
  const TemporaryFolder folder;
  folder.write("w.data", std::string(64 + 16384, '\1'));
  const ir::Schedule schedule = import_model(folder.write("model.onnx", model), {});
  bool found = false;
  for (const ir::Storage& storage : schedule.graph.storages) {
    if (storage.kind != ir::StorageKind::constant) continue;
    found = true;
    EXPECT_EQ(storage.data.file, folder.file("w.data"));
    EXPECT_EQ(storage.data.file_offset, 64);
  }
  EXPECT_TRUE(found);
}

// Sizes of 0 are legal: an operator that reads no element needs no writer.
TEST(EmptySizes, WhatReadsNothingNeedsNoWriter) {
  const ir::Schedule product = import_text(
      "g (float[3, 0] x) => (float[3, 2] y) { a = Neg(x) w = Constant <value = float[0, 2] {}> () y = "
      "MatMul(a, w) }");
  EXPECT_THAT(run_optimised(product, {floats({3, 0}, {})})[0].values<float>(), ElementsAre(0, 0, 0, 0, 0, 0));
  const ir::Schedule joined = import_text("g (float[0] x) => (float[0] y) { y = Concat <axis = 0> (x, x) }");
  EXPECT_THAT(run_optimised(joined, {floats({0}, {})})[0].sizes, ElementsAre(0));
}

TEST(EmptySizes, RowsOfAMatrixProduct) {
  const ir::Schedule schedule =
      import_text("g (float[0, n, 4] x, float[4, 5] w) => (float[0, n, 5] y) { y = MatMul(x, w) }",
                  {.dims = {{"n", {1, 3}}}});
  const auto out = run_optimised(schedule, {floats({0, 2, 4}, {}), floats({4, 5}, std::vector<float>(20))});
  EXPECT_THAT(out[0].sizes, ElementsAre(0, 2, 5));
}

TEST(Slices, AStartFarBeforeTheFirstElementIsTheFirstElementBackwardsToo) {
  const ir::Schedule schedule = import_text(
      "g (float[3] x) => (float[1] y) { b = Constant <value = int64[1] {-100}> () e = Constant <value = "
      "int64[1] "
      "{-100}> () t = Constant <value = int64[1] {-2}> () y = Slice(x, b, e, , t) }");
  EXPECT_THAT(run_one(schedule, {floats({3}, {7, 8, 9})})[0].values<float>(), ElementsAre(7));
}

TEST(Functions, LocalFunctionsAreInlinedWithTheirAttributes) {
  onnx::ModelProto model;
  const char* text = R"(<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
    g (float[2] x) => (float[2] y) { [call] y = local.scale <by = 3.0> (x) }
    <domain: "local", opset_import: ["" : 17]> scale <by> (a) => (b) { f = Constant <value_float: float = @by> () b = Mul(a, f) })";
  const onnx::Common::Status status = onnx::OnnxParser::Parse(model, text);
  ASSERT_TRUE(status.IsOK()) << status.ErrorMessage();
  EXPECT_THAT(run_one(import_proto(model), {floats({2}, {1, 2})})[0].values<float>(), ElementsAre(3, 6));
}

// Sizes that ONNX's inference takes for larger, smaller or fewer than they are.
struct WindowSizes {
  const char *name, *graph;
  int opset;
  std::vector<std::int64_t> input;
  std::vector<float> expected;
};

class WindowSizesTest : public ::testing::TestWithParam<WindowSizes> {};

TEST_P(WindowSizesTest, AreThoseOfTheWindowsThatFit) {
  std::vector<float> values(static_cast<std::size_t>(GetParam().input[2]));
  std::iota(values.begin(), values.end(), 1.0f);
  const ir::Schedule schedule = import_text(GetParam().graph, {}, GetParam().opset);
  const ir::Tensor y = run_one(schedule, {floats(GetParam().input, values)})[0];
  EXPECT_THAT(y.values<float>(), ElementsAreArray(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(
    Lowering, WindowSizesTest,
    ::testing::Values(
        WindowSizes{
            "CeilModeWithoutWindowsInThePadding",
            "g (float[1,1,3] x) => (float[1,1,1] y) { y = MaxPool <kernel_shape = [2], strides = [3], "
            "ceil_mode = 1> (x) }",
            13,
            {1, 1, 3},
            {2}},
        WindowSizes{"AutomaticPaddingOfWindowsShorterThanTheirStride",
                    "g (float[1,1,2] x) => (float[1,1,3] y) { w = Constant <value = float[1,1,1] {1.0}> () "
                    "y = ConvTranspose <strides = [2], auto_pad = \"SAME_UPPER\"> (x, w) }",
                    17,
                    {1, 1, 2},
                    {1, 0, 2}},
        WindowSizes{
            "AutomaticPaddingAndOutputPadding",
            "g (float[1,1,1] x) => (float[1,1,2] y) { w = Constant <value = float[1,1,3] {1.0, 2.0, 3.0}> () "
            "y = ConvTranspose <strides = [2], auto_pad = \"SAME_LOWER\", output_padding = [1]> (x, w) }",
            17,
            {1, 1, 1},
            {2, 3}},
        WindowSizes{"OutputShapeSmallerThanTheInput",
                    "g (float[1,1,4] x) => (float[1,1,2] y) { w = Constant <value = float[1,1,1] {1.0}> () "
                    "y = ConvTranspose <output_shape = [2]> (x, w) }",
                    17,
                    {1, 1, 4},
                    {2, 3}}),
    [](const auto& info) { return info.param.name; });

TEST(Lowering, EpiloguesOfEmptyProducts) {
  const ir::Schedule schedule = import_text(
      "g (float[5,0,2] x, float[3] bias) => (float[5,0,3] y) { w = Constant <value = float[2,3] {1.0, 2.0, "
      "3.0, "
      "4.0, 5.0, 6.0}> () p = MatMul(x, w) y = Add(p, bias) }");
  const auto out = run_optimised(schedule, {floats({5, 0, 2}, {}), floats({3}, {1, 2, 3})});
  EXPECT_THAT(out[0].sizes, ElementsAre(5, 0, 3));
}

TEST(Lowering, CopiesWithoutElements) {
  const ir::Schedule schedule = import_text(
      "g (float a, float[1,1,3] b, float[3,0,0] c) => (float[0,1] y) { y = Einsum <equation = \", eed, daa "
      "-> ae\"> "
      "(a, b, c) }");
  const auto out =
      run_optimised(schedule, {floats({}, {2}), floats({1, 1, 3}, {1, 2, 3}), floats({3, 0, 0}, {})});
  EXPECT_THAT(out[0].sizes, ElementsAre(0, 1));
}

TEST(OpRegistry, ListsEveryOperatorOnceAndSorted) {
  const std::vector<OpSpec> ops = all_ops();
  EXPECT_GT(ops.size(), 90u);
  for (std::size_t k = 1; k < ops.size(); ++k) {
    EXPECT_LT(std::tie(ops[k - 1].domain, ops[k - 1].name, ops[k - 1].first_version),
              std::tie(ops[k].domain, ops[k].name, ops[k].first_version));
  }
}

TEST(OpRegistry, TheReadmeSaysHowManyOperatorsOfOnnxThereAre) {
  std::set<std::string> names;
  for (const OpSpec& op : all_ops()) {
    if (op.domain.empty()) names.insert(op.name);
  }
  std::ifstream file(paths::source("README.md"));
  const std::string readme{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(readme, HasSubstr("| ONNX | " + std::to_string(names.size()) + " [operators]"));
}

}  // namespace
}  // namespace braid::frontend
