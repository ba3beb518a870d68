// braid inspect, explain of a folder, and bounds for dimensions that were not given.
#include <gmock/gmock.h>
#include <onnx/onnx_pb.h>

#include <nlohmann/json.hpp>

#include "frontend/dims.h"
#include "tests/cli/braid_process.h"
#include "tests/cli/paths.h"
#include "tests/paths.h"
#include "tests/support/onnx_parser.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kScores = paths::source("examples/plugin/scores.onnx");

std::string all_reduce_model() { return model("collectives/all_reduce_dynamic/model.onnx"); }

nlohmann::json json_of(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const ProcessResult result = braid(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return nlohmann::json::parse(result.out);
}

TEST(Inspect, ShowsAModelWithoutDimensionsOrRanks) {
  const nlohmann::json json = json_of({"inspect", all_reduce_model()});
  EXPECT_THAT(json["dims"], ElementsAre("batch", "sequence"));
  EXPECT_EQ(json["inputs"][0]["type"], "f32");
  int collectives = 0;
  for (const nlohmann::json& op : json["operators"]) {
    if (op["collective"]) collectives += op["count"].get<int>();
  }
  EXPECT_EQ(collectives, 1);
  EXPECT_TRUE(json["unsupported"].empty());
  const ProcessResult text = braid({"inspect", all_reduce_model()});
  EXPECT_THAT(text.out, AllOf(HasSubstr("dim     batch"), HasSubstr("   collective"),
                              HasSubstr("all operators are supported")));
}

TEST(Inspect, NamesWhatIsNotSupportedUnlessAPluginKnowsIt) {
  const nlohmann::json json = json_of({"inspect", kScores});
  ASSERT_EQ(json["unsupported"].size(), 1u);
  EXPECT_EQ(json["unsupported"][0]["operator"], "com.example.RowSort-1");
  EXPECT_THAT(json["unsupported"][0]["nodes"], ElementsAre("/RowSort"));
  EXPECT_TRUE(json_of({"inspect", kScores, "--plugin", paths::row_sort()})["unsupported"].empty());
}

TEST(Inspect, TellsAValueWithoutAShapeFromAScalar) {
  onnx::ModelProto model;
  ASSERT_TRUE(onnx::OnnxParser::Parse(model, R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[2] x, float scalar) => (float[2] y, float s) { y = Neg(x) s = Neg(scalar) })")
                  .IsOK());
  model.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  const Folder folder;
  const std::string file = folder.file("model.onnx", model.SerializeAsString());
  const ProcessResult text = braid({"inspect", file});
  EXPECT_THAT(text.out,
              AllOf(HasSubstr("output  y: f32 without a declared shape\n"), HasSubstr("output  s: f32[]\n")));
  const nlohmann::json json = json_of({"inspect", file});
  EXPECT_TRUE(json["outputs"][0]["shape"].is_null());
  EXPECT_EQ(json["outputs"][1]["shape"], nlohmann::json::array());
}

// An invalid node is told, but not what sizes that are not given, or more ranks, may make valid.
TEST(Inspect, TellsInvalidNodesOnly) {
  const Folder folder;
  const auto inspected = [&](const std::string& graph) {
    onnx::ModelProto model;
    EXPECT_TRUE(
        onnx::OnnxParser::Parse(
            model,
            (R"(<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1, "ai.braid" : 1]> )" + graph)
                .c_str())
            .IsOK())
        << graph;
    return braid({"inspect", folder.file("model.onnx", model.SerializeAsString())}).out;
  };
  EXPECT_THAT(inspected(R"(g (float[2,3] x) => (float[3] y) { y = Einsum <equation = "....i"> (x) })"),
              HasSubstr("refused: error BR0111"));
  EXPECT_THAT(inspected(R"(g (float[4] x) => (float[4] y) { y = ai.braid.Broadcast <root = 1> (x) })"),
              AllOf(HasSubstr("all operators are supported"), Not(HasSubstr("refused"))));
}

// A model that cannot be compiled can be looked at, or is refused by a numbered error.
TEST(Inspect, SurvivesBrokenModels) {
  int refused = 0;
  for (const auto& entry : fs::recursive_directory_iterator(paths::source("tests/corpus/bad_models"))) {
    if (entry.path().extension() != ".onnx") continue;
    const ProcessResult result = braid({"inspect", entry.path().string()});
    EXPECT_EQ(result.exit_code, result.err.empty() ? 0 : code_of(result.err)) << entry.path() << result.err;
    refused += result.out.find("\nrefused: ") != std::string::npos || !result.err.empty() ? 1 : 0;
  }
  EXPECT_GT(refused, 10);
}

TEST(Inspect, ShowsACompiledProgramAndExplainItsCollectivesAndKernels) {
  const std::string program = compiled(
      "all_reduce", {all_reduce_model(), "--ranks", "2", "--dim", "batch=1..4", "--dim", "sequence=1..16"});
  const nlohmann::json json = json_of({"inspect", program});
  EXPECT_EQ(json["ranks"], 2);
  EXPECT_EQ(json["collectives"]["all_reduce"], 1);
  EXPECT_EQ(json["dims"][0]["max"], 4);
  const ProcessResult explained = braid({"explain", program, "--kernels"});
  EXPECT_EQ(explained.exit_code, 0) << explained.err;
  EXPECT_THAT(explained.out, AllOf(HasSubstr("input   x: f32[batch, sequence, 6]"),
                                   HasSubstr("Collectives in issue order"), HasSubstr("Kernels in order")));
}

TEST(DefaultDim, BoundsWhatIsNotGivenAndSaysSo) {
  const ProcessResult none = braid({"run", all_reduce_model(), "--ranks", "2"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, AllOf(HasSubstr("BR0310"), HasSubstr("--default-dim")));
  const ProcessResult result =
      braid({"run", all_reduce_model(), "--ranks", "2", "--dim", "batch=2", "--default-dim", "5"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("dimension 'sequence' is not given: --default-dim makes it 1..5"),
                                Not(HasSubstr("'batch' is not given"))));
  EXPECT_THAT(result.out, HasSubstr("f32[2, 5, 6]"));
  const ProcessResult wrong = braid({"run", all_reduce_model(), "--ranks", "2", "--default-dim", "much"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("BR0003: --default-dim much"));
}

TEST(DefaultDim, NamesComputedFromOthersFollowThem) {
  const frontend::DimBounds dims =
      frontend::default_dims({"batch", "past", "past + 1"}, {{"past", {0, 7}}}, {1, 4});
  EXPECT_EQ(dims.size(), 2u);
  EXPECT_EQ(dims.at("batch").max, 4);
  EXPECT_EQ(dims.at("past + 1").min, 1);
  EXPECT_EQ(dims.at("past + 1").max, 8);
}

}  // namespace
}  // namespace braid::test
