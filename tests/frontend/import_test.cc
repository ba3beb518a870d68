// The whole way from a file to the lowered program.
#include "frontend/import.h"

#include <gmock/gmock.h>

#include "ir/error_numbers.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "tests/frontend/models.h"

namespace braid::frontend {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kMlp[] =
    "g (float[batch, 3] x) => (float[batch, 2] y) <float[3, 4] w = {1,2,3,4,5,6,7,8,9,10,11,12}, float[4] b "
    "= {1,2,3,4}, "
    "float[4, 2] v = {1,2,3,4,5,6,7,8}> { [up] h = MatMul(x, w) [bias] a = Add(h, b) [act] r = Relu(a) "
    "[down] y = MatMul(r, v) }";

TEST(Import, MlpIsTwoGemmsAndOneLoop) {
  const ir::Schedule schedule = import_text(kMlp, {.dims = {{"batch", {1, 8}}}});
  int gemms = 0, loops = 0;
  for (const ir::Operation& op : schedule.graph.ops) {
    gemms += op.as<ir::Gemm>() != nullptr;
    loops += op.as<ir::Loops>() != nullptr;
  }
  EXPECT_EQ(gemms, 2);
  EXPECT_EQ(loops, 1) << print(schedule);
}

TEST(Import, SameFileGivesTheSameText) {
  const ImportOptions options{.dims = {{"batch", {1, 8}}}};
  EXPECT_EQ(print(import_text(kMlp, options)), print(import_text(kMlp, options)));
}

// Only the branch taken may need an operator that is not there.
TEST(Import, TheBranchNotTakenIsNotLowered) {
  const ir::Schedule schedule = import_text(
      "g (float[2] x) => (float[n] y) { c = Constant <value = bool {0}> () y = If (c) "
      "<then_branch = t () => (float[n] a) { a = RandomNormalLike(x) }, "
      "else_branch = f () => (float[m] b) { b = Abs(x) }> }");
  EXPECT_THAT(print(schedule), HasSubstr("= abs"));
}

// Index vectors put together from positions are read component by component, without checks.
TEST(Import, GatherNdOfKnownPositionsReadsDirectly) {
  const ir::Schedule schedule = import_text(
      "g (float[n, n] x) => (float[n] y) { z = Constant <value_int = 0> () o = Constant <value_int = 1> () "
      "s = Shape(x) n = Gather(s, z) r = Range(z, n, o) m = Constant <value_ints = [-1]> () u = Unsqueeze(r, "
      "m) "
      "at = Concat <axis = 1> (u, u) y = GatherND(x, at) }",
      {.dims = {{"n", {1, 8}}}});
  EXPECT_THAT(print(schedule), Not(HasSubstr("check_index")));
}

std::vector<std::string> notes_of(const onnx::ModelProto& model, ImportOptions options = {}) {
  std::vector<std::string> notes;
  options.note = [&](const std::string& text) { notes.push_back(text); };
  import_proto(model, options);
  return notes;
}

TEST(Declarations, WrongOnesAreNotesAndInferenceDecides) {
  const auto notes = [](const std::string& text) { return notes_of(parse_model(text)); };
  EXPECT_THAT(notes("g (float[2,3] x) => (float[2,3] y) <float[7] a> { [n] a = Relu(x) y = Neg(a) }"),
              ElementsAre("'a' of node 'n' (Relu) is declared with 1 dimension, but it has 2"));
  EXPECT_THAT(notes("g (float[2,3] x) => (float[2,3] y) <int64[2,3] a> { [n] a = Relu(x) y = Neg(a) }"),
              ElementsAre("'a' of node 'n' (Relu) is declared as INT64, but it is f32"));
  EXPECT_THAT(notes("g (float[2,3] x) => (float[2,4] y) { [n] y = Neg(x) }"),
              ElementsAre("'y' of node 'n' (Neg) is declared with size 4 along axis 1, but it has 3"));
  EXPECT_THAT(notes("g (float[2,3] x) => (float[2,4] x) { y = Neg(x) }"),
              ElementsAre("'x' is declared twice, as FLOAT[2, 3] and as FLOAT[2, 4]; it is FLOAT[2, 3]"));
  EXPECT_THAT(notes("g (float[2,3] x) => (float[2,3] y) { y = Neg(x) }"), ElementsAre());
  const ir::Schedule schedule = import_text("g (float[2,3] x) => (float[6] y) { y = Neg(x) }");
  EXPECT_EQ(schedule.graph[schedule.graph.outputs[0].buffer].sizes.size(), 2U);
}

// A size that depends on a dimension is no guard.
TEST(Declarations, DoNotBindDimensions) {
  const std::string text = "g (float[n,3] x) => (float[4,3] y) { [n] y = Neg(x) }";
  EXPECT_TRUE(import_text(text, {.dims = {{"n", {1, 8}}}}).graph.guards.empty());
  EXPECT_THAT(notes_of(parse_model(text), {.dims = {{"n", {5, 8}}}}),
              ElementsAre("'y' of node 'n' (Neg) is declared with size 4 along axis 0, but it has n"));
}

TEST(UnreadInputs, OfUnsupportedTypesAreDropped) {
  const onnx::ModelProto model =
      parse_model("g (float[2] x, string[2] s, seq(float[2]) q) => (float[2] y) { y = Neg(x) }");
  EXPECT_THAT(
      notes_of(model),
      ElementsAre("nothing reads input 's', whose type is not supported: the program does not take it",
                  "nothing reads input 'q', whose type is not supported: the program does not take it"));
  EXPECT_EQ(import_proto(model).graph.inputs.size(), 1U);
  const ir::UserError error =
      error_of([] { import_text("g (string[2] s) => (string[2] y) { y = Identity(s) }"); });
  EXPECT_EQ(error.code(), errors::kUnsupportedType);
}

std::string with_function(int version, const std::string& body) {
  return "<ir_version: 9, opset_import: [\"\" : 17, \"local\" : 1]>\n"
         "g (float[2,3] x) => (float[a,b] y) { [call] y = local.f(x) }\n"
         "<domain: \"local\", opset_import: [\"\" : " +
         std::to_string(version) + "]> f (a) => (b) { " + body + " }";
}

// ONNX allows it where the definitions of all operators are the same.
TEST(Functions, MayImportAnotherVersionWhereItsOperatorsAreTheSame) {
  const auto import_function = [](int version, const std::string& body) {
    onnx::ModelProto model;
    const std::string text = with_function(version, body);
    const auto status = onnx::OnnxParser::Parse(model, text.c_str());
    EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
    return import_proto(model);
  };
  for (const int version : {14, 16, 18, 21})
    EXPECT_EQ(import_function(version, "c = Relu(a) b = Exp(c)").nodes.size(), 1U);
  const ir::UserError error = error_of([&] { import_function(18, "b = ReduceMax(a)"); });
  EXPECT_NE(error.code(), 0);
  EXPECT_THAT(error.what(), ::testing::HasSubstr("18"));
  // No node calls it.
  std::string text = with_function(18, "b = ReduceMax(a)");
  text.replace(text.find("local.f(x)"), 10, "Neg(x)");
  onnx::ModelProto model;
  ASSERT_TRUE(onnx::OnnxParser::Parse(model, text.c_str()).IsOK());
  EXPECT_EQ(import_proto(model).nodes.size(), 1U);
}

TEST(Seed, GivesRandomOperatorsOnesOfTheirOwn) {
  const std::string text =
      "g (float[2] x, bool c) => (float[2] y, float[2] z) { y = RandomNormalLike(x) z = If (c) <then_branch "
      "= t () "
      "=> (float[2] a) { a = RandomNormalLike(x) }, else_branch = f () => (float[2] b) { b = "
      "RandomUniformLike "
      "<seed = 1.0> (x) }> }";
  const auto values = [&](std::optional<std::int64_t> seed, std::size_t output) {
    const std::vector<std::vector<ir::Tensor>> inputs = {
        {floats({2}, {0, 0}), ir::make_tensor<std::uint8_t>(ir::DType::boolean, {}, {output == 1})}};
    return ir::run(import_text(text, {.seed = seed}), inputs).outputs[0][output].values<float>();
  };
  EXPECT_EQ(error_of([&] { values({}, 0); }).code(), errors::kUnsupportedForm);
  EXPECT_EQ(values(7, 0), values(7, 0));
  EXPECT_NE(values(7, 0), values(8, 0));
  EXPECT_NE(values(7, 0), values(7, 1));
}

}  // namespace
}  // namespace braid::frontend
