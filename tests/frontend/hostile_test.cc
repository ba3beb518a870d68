// Small models that say large things: time and memory follow the file, not what it says.
#include <gmock/gmock.h>

#include "frontend/functions.h"
#include "ir/error_numbers.h"
#include "ir/interpreter.h"
#include "tests/frontend/models.h"
#include "tests/support/limited_child.h"

namespace braid::frontend {
namespace {

using ::testing::HasSubstr;

// `levels` functions, each of which calls the one before `calls` times.
onnx::ModelProto tower(int levels, int calls) {
  onnx::ModelProto model = parse_model("g (float[4] x) => (float[4] y) { y = Neg(x) }");
  onnx::OperatorSetIdProto& local = *model.add_opset_import();
  local.set_domain("local");
  local.set_version(1);
  for (int k = 0; k < levels; ++k) {
    onnx::FunctionProto& f = *model.add_functions();
    f.set_domain("local");
    f.set_name("f" + std::to_string(k));
    f.add_input("v0");
    *f.add_opset_import() = model.opset_import(0);
    *f.add_opset_import() = local;
    for (int n = 0; n < calls; ++n) {
      onnx::NodeProto& node = *f.add_node();
      node.set_op_type(k == 0 ? "Neg" : "f" + std::to_string(k - 1));
      node.set_domain(k == 0 ? "" : "local");
      node.add_input("v" + std::to_string(n));
      node.add_output("v" + std::to_string(n + 1));
    }
    f.add_output("v" + std::to_string(calls));
  }
  onnx::NodeProto& call = *model.mutable_graph()->mutable_node(0);
  call.set_domain("local");
  call.set_op_type("f" + std::to_string(levels - 1));
  return model;
}

// Imports within `bytes` of memory and without an error.
void expect_imported_within(rlim_t bytes, const onnx::ModelProto& model) {
  const TemporaryFolder folder;
  const std::string path = folder.write("model.onnx", model);
  const auto import = [&](int) {
    try {
      import_model(path, {});
    } catch (const ir::UserError& error) {
      throw std::runtime_error(error.what());
    }
  };
  for (const auto& [number, what] : test::run_limited(1, import, bytes)) ADD_FAILURE() << what;
}

TEST(FunctionsThatCallFunctions, AreExpandedWhereTheResultIsReasonable) {
  const std::vector<std::vector<ir::Tensor>> inputs = {
      {ir::make_tensor<float>(ir::DType::f32, {4}, {-1, 2, -3, 4})}};
  for (const auto& [levels, calls] : {std::pair(30, 1), {8, 2}}) {  // one negation, and 256
    const ir::InterpreterResult result = ir::run(import_proto(tower(levels, calls)), inputs);
    EXPECT_THAT(result.outputs[0][0].values<float>(),
                levels == 30 ? ::testing::ElementsAre(1, -2, 3, -4) : ::testing::ElementsAre(-1, 2, -3, 4));
  }
}

TEST(FunctionsThatCallFunctions, AreRefusedWhereTheyStandForTooManyNodes) {
  for (const auto& [levels, calls] : {std::pair(30, 2), {8, 8}, {60, 60}}) {
    const ir::UserError error = error_of([&] { import_proto(tower(levels, calls)); });
    EXPECT_EQ(error.code(), errors::kFunctionExpansion) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("with all function calls inlined the model has"));
  }
}

TEST(FunctionsThatCallFunctions, AreRefusedWhereTheyAreNestedTooDeeply) {
  const ir::UserError error = error_of([] { import_proto(tower(2000, 1)); });
  EXPECT_EQ(error.code(), errors::kFunctionExpansion);
  EXPECT_THAT(error.what(), HasSubstr("2000 levels deep"));
}

TEST(FunctionsThatCallFunctions, AreRecursiveAlsoThroughABranch) {
  onnx::ModelProto model = tower(1, 1);
  onnx::FunctionProto& f = *model.mutable_functions(0);
  onnx::NodeProto& choice = *f.add_node();
  choice.set_op_type("If");
  choice.add_input("v0");
  choice.add_output("w");
  onnx::AttributeProto& branch = *choice.add_attribute();
  branch.set_name("then_branch");
  branch.set_type(onnx::AttributeProto::GRAPH);
  onnx::NodeProto& call = *branch.mutable_g()->add_node();
  call.set_domain("local");
  call.set_op_type("f0");
  EXPECT_EQ(error_of([&] { import_proto(model); }).code(), errors::kRecursiveFunction);
}

TEST(FunctionsThatCallFunctions, AreToldApartByTheirOverload) {
  onnx::ModelProto model = tower(1, 1);
  model.set_ir_version(10);
  onnx::FunctionProto other = model.functions(0);
  other.set_overload("absolute");
  other.mutable_node(0)->set_op_type("Abs");
  *model.add_functions() = other;
  model.mutable_graph()->mutable_node(0)->set_overload("absolute");
  const std::vector<std::vector<ir::Tensor>> inputs = {
      {ir::make_tensor<float>(ir::DType::f32, {4}, {-1, 2, -3, 4})}};
  const ir::InterpreterResult result = ir::run(import_proto(model), inputs);
  EXPECT_THAT(result.outputs[0][0].values<float>(), ::testing::ElementsAre(1, 2, 3, 4));
  *model.add_functions() = other;
  EXPECT_EQ(error_of([&] { import_proto(model); }).code(), errors::kDuplicateName);
}

TEST(LongTensors, CostNoMemoryPerElement) {
  constexpr rlim_t kBytes = rlim_t{1} << 30;
  for (const char* text :
       {"g (float[50000000] a, float[50000000] b) => (float[50000000] y) { y = Mul(a, b) }",
        "g (int64[50000000] a, int64[50000000] b) => (int64[50000000] y) { y = Add(a, b) }",
        "g (int64[50000000] a) => (int32[50000000] y) { y = Cast <to = 6> (a) }",
        "g (int64[50000000] a, int64[50000000] i) => (int64[50000000] y) { y = Gather(a, i) }",
        "g (int64[50000000] a) => (int64[100000000] y) { y = Concat <axis = 0> (a, a) }",
        "g (float[1] a) => (float[n] y) { s = Constant <value_ints = [10000000000]> () y = "
        "ConstantOfShape(s) }",
        "g (float[1] a) => (float[n] y) { s = Constant <value_ints = [10000000000]> () y = Tile(a, s) }",
        "g (float[1] a) => (int64[n] y) { z = Constant <value_int = 0> () o = Constant <value_int = 1> () "
        "e = Constant <value_int = 10000000000> () y = Range(z, e, o) }",
        "g (float[1] a) => (int64[n] y) { c = Constant <value_ints = [1]> () "
        "s = Constant <value_ints = [10000000000]> () y = Expand(c, s) }",
        "g (float[1] a) => (float[n] y) { c = Constant <value_floats = [1.0, 2.0]> () "
        "s = Constant <value_ints = [10000000000, 10000000000]> () y = Pad(c, s) }"}) {
    SCOPED_TRACE(text);
    expect_imported_within(kBytes, parse_model(text, 18));
  }
}

TEST(LongTensors, AShapeThatDoublesWithEveryNodeIsNotFollowed) {
  std::string text = "{ s0 = Shape(x)\n";
  for (int k = 0; k < 30; ++k) text += fmt::format("s{} = Concat <axis = 0> (s{}, s{})\n", k + 1, k, k);
  expect_imported_within(rlim_t{1} << 30,
                         parse_model("g (float[2] x) => (int64[n] y) " + text + "y = Neg(s30) }"));
  text = "g (float[2] x) => (float[n] y) " + text + "p = ReduceProd(s30) y = ConstantOfShape(p) }";
  const ir::UserError error = error_of([&] { import_text(text); });
  EXPECT_EQ(error.code(), errors::kDataDependentSize) << error.what();
}

// ONNX adds sizes in 32 bits: -2^31, 0, and for three parts a small positive number.
TEST(LongTensors, ASumOfSizesDoesNotWrap) {
  for (const auto& [parts, levels] : {std::pair("s{0}, s{0}", 40), std::pair("s{0}, s{0}, s{0}", 24)}) {
    std::string text = "{ s0 = Shape(x)\n";
    for (int k = 0; k < levels; ++k)
      text += fmt::format("s{} = Concat <axis = 0> (", k + 1) + fmt::format(fmt::runtime(parts), k) + ")\n";
    expect_imported_within(rlim_t{1} << 30, parse_model("g (float[2] x) => (int64[n] y) " + text +
                                                        fmt::format("y = Neg(s{}) }}", levels)));
  }
}

TEST(LongTensors, ASizeThatDoublesWithEveryNodeIsNotFollowed) {
  std::string text =
      "g (float[a] x) => (float[n] y) { s0 = Shape(x) c = Constant <value_ints = [3]> () "
      "d = Constant <value_ints = [5]> ()\n";
  for (int k = 0; k < 40; ++k)
    text += fmt::format("u{0} = Div(s{0}, c) v{0} = Mod(s{0}, d) s{1} = Add(u{0}, v{0})\n", k, k + 1);
  const ir::UserError error = error_of([&] {
    import_text(text + "y = ConstantOfShape(s40) }", {.dims = {{"a", {1, 100}}}});
  });
  EXPECT_EQ(error.code(), errors::kDataDependentSize) << error.what();
}

TEST(Attributes, AreCheckedBeforeInferenceUsesThem) {
  struct Bad {
    const char* text;
    const char* mention;
  };
  for (const auto& [text, mention] :
       {Bad{"g (float[2,3] x, int64[2,1] i) => (float[n] y) { y = GatherND <batch_dims = -2> (x, i) }",
            "'batch_dims' is -2, expected 0 to 1"},
        {"g (float[2,3] x) => (float[n] y) { y = Softmax <axis = 2147483648> (x) }", "'axis' is 2147483648"},
        {"g (float[2,3] x) => (float[n] y) { y = ReduceMax <keepdims = 2> (x) }",
         "'keepdims' is 2, expected 0 to 1"},
        {"g (float[8] x) => (float[4] y, float[4] z) { y, z = Split <num_outputs = 2147483647> (x) }",
         "'num_outputs' is 2147483647, but the node has 2 outputs"},
        {"g (float[2,4] x, float[4] s) => (float[2,4] y) { y = LayerNormalization <stash_type = 3> (x, s) }",
         "'stash_type' is 3"}}) {
    const ir::UserError error = error_of([&] { import_text(text, {}, 18); });
    EXPECT_EQ(error.code(), errors::kInvalidAttribute) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(mention));
  }
}

TEST(Attributes, AreCheckedInFunctionsAndBranchesToo) {
  onnx::ModelProto model = tower(1, 1);
  onnx::NodeProto& node = *model.mutable_functions(0)->mutable_node(0);
  node.set_op_type("Softmax");
  onnx::AttributeProto& axis = *node.add_attribute();
  axis.set_name("axis");
  axis.set_type(onnx::AttributeProto::INT);
  axis.set_i(std::int64_t{1} << 31);
  EXPECT_EQ(error_of([&] { import_proto(model); }).code(), errors::kInvalidAttribute);
  EXPECT_EQ(
      error_of([] {
        import_text(
            "g (float[2,3] x, bool d) => (float[2,3] y) { c = Constant <value = bool {1}> () y = If (c) "
            "<then_branch = t () => (float[2,3] a) "
            "{ a = Softmax <axis = 2147483648> (x) }, else_branch = e () => (float[2,3] b) { b = Neg(x) }> "
            "}");
      }).code(),
      errors::kInvalidAttribute);
}

TEST(ShapesThatDoNotFit, AreErrorsOfTheUser) {
  for (const char* text :
       {"g (float[2,4] x, float[3,2,4] s) => (float[2,4] y) { y = LayerNormalization(x, s) }",
        "g (float[2,4] x, float[5] s) => (float[2,4] y) { y = LayerNormalization(x, s) }",
        "g (float[2,1] x, float[1] s, float[4] b) => (float[2,n] y) { y = LayerNormalization(x, s, b) }",
        "g (float[2,4] x, float[3,2,4] s) => (float[2,4] y) { y = SimplifiedLayerNormalization(x, s) }",
        "g (float[2,4] x, int64[3,4] i) => (float[3,4] y) { y = GatherElements <axis = 1> (x, i) }"}) {
    const ir::UserError error = error_of([&] { import_text(text); });
    EXPECT_EQ(error.code(), errors::kShapeMismatch) << text << error.what();
  }
}

TEST(ShapesThatDoNotFit, AreErrorsOfTheUserAlsoInBodiesThatONNXWrites) {
  const char* text = "g (float[2,4] x, int64[3] l) => (float z) { z = SoftmaxCrossEntropyLoss(x, l) }";
  EXPECT_EQ(error_of([&] { import_text(text, {}, 13); }).code(), errors::kShapeMismatch);
}

// A view of one row checks no index when it is read.
TEST(ShapesThatMayNotFit, AreGuarded) {
  const auto guards = [](const char* text) {
    return import_text(text, {.dims = {{"a", {1, 4}}}}).graph.guards.size();
  };
  EXPECT_EQ(guards("g (float[a,3] x) => (float[3] y) <int64 i = {0}> { y = Gather(x, i) }"), 0u);
  EXPECT_EQ(guards("g (float[a,3] x) => (float[3] y) <int64 i = {-1}> { y = Gather(x, i) }"), 0u);
  EXPECT_EQ(guards("g (float[a,3] x) => (float[3] y) <int64 i = {2}> { y = Gather(x, i) }"), 1u);
  EXPECT_EQ(guards("g (float[a,3] x) => (float[3] y) <int64 i = {-3}> { y = Gather(x, i) }"), 1u);
  EXPECT_EQ(
      guards("g (float[a,3] x, int64[3,1] i) => (float[3,1] y) { y = GatherElements <axis = 1> (x, i) }"),
      1u);
}

// A size that may be 1 or more would decide the rank of the result; one that may be negative, whether there
// is a result. The step checks both.
TEST(ShapesThatMayNotFit, WouldGiveAnotherRankOrNoResult) {
  const auto guards_of = [](const char* text, std::int64_t least) {
    std::vector<std::string> guards;
    for (const ir::Guard& guard : import_text(text, {.dims = {{"a", {least, 9}}}}).graph.guards)
      guards.push_back(to_string(guard.lhs) + " <= " + to_string(guard.rhs));
    return guards;
  };
  const char* squeeze = "g (float[1,a,3] x) => (float[a,3] y) { y = Squeeze(x) }";
  EXPECT_EQ(guards_of(squeeze, 1), std::vector<std::string>{"2 <= a"});
  EXPECT_EQ(guards_of(squeeze, 2), std::vector<std::string>{});
  const char* pad = "g (float[a] x) => (float[b] y) <int64[2] p = {-1, -2}> { y = Pad(x, p) }";
  EXPECT_EQ(guards_of(pad, 1), std::vector<std::string>{"0 <= a - 3"});
  EXPECT_EQ(guards_of(pad, 3), std::vector<std::string>{});
}

// Strides of rows of h - 2 elements are not negative where a guard says so: nothing is copied between the
// two.
TEST(ShapesThatMayNotFit, NeedNoCopyWhereAGuardHolds) {
  const ir::Schedule schedule = import_text(R"(g (float[1,2,h,5] x) => (float[1,4,a,b] y)
    <float[4,2,3,1] v = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}, float[4,4,1,1] w = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}> {
    t = Conv (x, v) y = Conv (t, w) })",
                                            {.dims = {{"h", {1, 9}}}});
  const auto loops = std::ranges::count_if(
      schedule.graph.ops, [](const ir::Operation& op) { return op.as<ir::Loops>() != nullptr; });
  EXPECT_EQ(loops, 1);  // the rows of the output
}

// Bounds of a clip look like sizes: what leaves 64 bits as a size wraps around as an integer.
TEST(IntegersThatAreNoSizes, WrapAround) {
  const ir::Schedule schedule = import_text(
      "g (int64[1] x) => (int64[1] y, int64[1] z) <int64[1] a = {-9223372036854775808}, "
      "int64[1] b = {9223372036854775807}> { m = Min(a, b) y = Sub(m, b) z = Add(x, m) }");
  const std::vector<std::vector<ir::Tensor>> inputs = {
      {ir::make_tensor<std::int64_t>(ir::DType::i64, {1}, {-1})}};
  const ir::InterpreterResult result = ir::run(schedule, inputs);
  EXPECT_THAT(result.outputs[0][0].values<std::int64_t>(), ::testing::ElementsAre(1));
  EXPECT_THAT(result.outputs[0][1].values<std::int64_t>(),
              ::testing::ElementsAre(std::numeric_limits<std::int64_t>::max()));
}

}  // namespace
}  // namespace braid::frontend
