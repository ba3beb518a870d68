// Outputs of classifiers that are strings or maps in the model: positions, columns, notes and tables.
#include "frontend/class_outputs.h"

#include <gmock/gmock.h>

#include "frontend/inspect.h"
#include "ir/error_numbers.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "tests/frontend/models.h"

namespace braid::frontend {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

onnx::ModelProto ml_model(const std::string& graph) {
  onnx::ModelProto model = parse_model(graph);
  onnx::OperatorSetIdProto& import = *model.add_opset_import();
  import.set_domain("ai.onnx.ml");
  import.set_version(1);
  return model;
}

onnx::ModelProto classifier() {
  onnx::ModelProto model = ml_model(
      "g (float[n, 1] x) => (string[n] label, float[n, 2] m) { label, p = ai.onnx.ml.LinearClassifier "
      "<coefficients = [1.0, -1.0], intercepts = [0.0, 0.5], classlabels_strings = [\"no\", \"yes, sir\"]> "
      "(x) "
      "m = ai.onnx.ml.ZipMap <classlabels_strings = [\"no\", \"yes, sir\"]> (p) }");
  onnx::ValueInfoProto& maps = *model.mutable_graph()->mutable_output(1);
  onnx::TypeProto_Map& map =
      *maps.mutable_type()->mutable_sequence_type()->mutable_elem_type()->mutable_map_type();
  map.set_key_type(onnx::TensorProto::STRING);
  map.mutable_value_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  return model;
}

TEST(ClassOutputs, AreTensorsWithATable) {
  std::vector<std::string> notes;
  ImportOptions options{.dims = {{"n", {1, 8}}}};
  options.note = [&](const std::string& text) { notes.push_back(text); };
  const ir::Schedule schedule = import_proto(classifier(), options);
  ASSERT_EQ(schedule.graph.outputs.size(), 2u);
  EXPECT_THAT(schedule.graph.outputs[0].classes, ElementsAre("no", "yes, sir"));
  EXPECT_THAT(schedule.graph.outputs[1].classes, ElementsAre("no", "yes, sir"));
  EXPECT_THAT(notes,
              ElementsAre(HasSubstr("'m' has a column for each class"),
                          HasSubstr("'label' has positions in [\"no\", \"yes, sir\"] instead of strings")));
  const std::vector<std::vector<ir::Tensor>> inputs = {{floats({2, 1}, {1, 0})}};
  const std::vector<ir::Tensor> results = ir::run(schedule, inputs).outputs[0];
  EXPECT_THAT(results[0].values<std::int64_t>(), ElementsAre(0, 1));
  EXPECT_THAT(results[1].values<float>(), ElementsAre(1, -0.5F, 0, 0.5F));
}

TEST(ClassOutputs, TextsKeepTheTable) {
  const ir::Schedule schedule = import_proto(classifier(), {.dims = {{"n", {1, 8}}}});
  const std::string text = ir::print(schedule);
  EXPECT_THAT(text, HasSubstr("classes (\"no\", \"yes, sir\")"));
  const ir::Schedule again = ir::parse_schedule(text);
  EXPECT_EQ(again.graph.outputs[0].classes, schedule.graph.outputs[0].classes);
  EXPECT_EQ(ir::print(again), text);
}

TEST(ClassOutputs, InspectTellsThem) {
  const TemporaryFolder folder;
  const ModelFacts facts = inspect_model(folder.write("model.onnx", classifier()));
  EXPECT_FALSE(facts.refused) << facts.refused->what();
  EXPECT_TRUE(facts.unsupported.empty());
  EXPECT_THAT(facts.outputs[0].classes, ElementsAre("no", "yes, sir"));
}

TEST(ClassOutputs, LabelEncodersHaveOneMoreForTheDefault) {
  onnx::ModelProto model = ml_model(
      "g (int64[n] x) => (string[n, 1] y) { u = ai.onnx.ml.LabelEncoder <keys_int64s = [3, 7], "
      "values_strings "
      "= [\"three\", \"seven\"], default_string = \"other\"> (x) s = Constant <value = int64[2] {-1, 1}> () "
      "y = "
      "Reshape (u, s) }");
  model.mutable_opset_import(static_cast<int>(model.opset_import_size()) - 1)->set_version(2);
  const ir::Schedule schedule = import_proto(model, {.dims = {{"n", {1, 8}}}});
  EXPECT_THAT(schedule.graph.outputs[0].classes, ElementsAre("three", "seven", "other"));
  const std::vector<std::vector<ir::Tensor>> inputs = {
      {ir::make_tensor(ir::DType::i64, {3}, std::vector<std::int64_t>{7, 5, 3})}};
  EXPECT_THAT(ir::run(schedule, inputs).outputs[0][0].values<std::int64_t>(), ElementsAre(1, 2, 0));
}

TEST(ClassOutputs, FollowOperatorsThatOnlyMoveElements) {
  onnx::ModelProto model = ml_model(
      "g (int64[n] x) => (string[2, n] y) { u = ai.onnx.ml.LabelEncoder <keys_int64s = [3, 7], "
      "values_strings = [\"three\", \"seven\"]> (x) s = Constant <value = int64[2] {2, 1}> () "
      "y = Expand (u, s) }");
  model.mutable_opset_import(static_cast<int>(model.opset_import_size()) - 1)->set_version(2);
  const ir::Schedule schedule = import_proto(model, {.dims = {{"n", {1, 8}}}});
  EXPECT_THAT(schedule.graph.outputs[0].classes, ElementsAre("three", "seven", "_Unused"));
}

// Strings that no table is known for are refused as before.
TEST(ClassOutputs, OtherStringsAreRefused) {
  const ir::UserError error = error_of([] {
    import_proto(
        ml_model("g (float[2, 1] x) => (string[4] y) { label, p = ai.onnx.ml.LinearClassifier "
                 "<coefficients = [1.0, -1.0], classlabels_strings = [\"a\", \"b\"]> (x) y = Concat "
                 "<axis = 0> (label, label) }"));
  });
  EXPECT_EQ(error.code(), errors::kTypeMismatch);
}

}  // namespace
}  // namespace braid::frontend
