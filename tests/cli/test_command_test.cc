// braid test and verify.
#include <gmock/gmock.h>
#include <onnx/onnx_pb.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/braid_process.h"
#include "tests/paths.h"
#include "tests/support/onnx_parser.h"

namespace braid::test {
namespace {

using ::testing::HasSubstr;

TEST(TestCommand, CasesPassOnTwoRanksAndOnOne) {
  const ProcessResult result =
      braid({"test", model("collectives/row_split_linear"), model("ops/gemm_all_attributes")});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("2 passed, 0 failed, 0 refused\n"));
  EXPECT_THAT(result.out, HasSubstr("max relative error"));
}

TEST(TestCommand, ACompiledProgramIsRunOnTheCasesData) {
  const std::string data = model("collectives/all_reduce_dynamic");
  const std::string program = compiled(
      "all_reduce", {data + "/model.onnx", "--ranks", "2", "--dim", "batch=1..4", "--dim", "sequence=1..16"});
  const ProcessResult result = braid({"test", data, "--program", program}, {}, {"CXX=false"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("1 passed, 0 failed, 0 refused\n"));
  const ProcessResult other = braid({"test", model("collectives/all_reduce_4_ranks"), "--program", program});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.out, HasSubstr("BR0401"));
}

TEST(TestCommand, InterpreterNeedsNoHostCompiler) {
  const ProcessResult result =
      braid({"test", "--target", "interpreter", "-q", model("ops/softmax_dynamic")}, {}, {"CXX=false"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(result.out, "1 passed, 0 failed, 0 refused\n");
}

TEST(TestCommand, OtherResultsThanTheStoredOnesFail) {
  const Folder folder;
  fs::copy(model("ops/add"), folder.path() / "case", fs::copy_options::recursive);
  fs::copy_file(folder / "case/test_data_set_0/input_0.pb", folder / "case/test_data_set_0/output_0.pb",
                fs::copy_options::overwrite_existing);
  const ProcessResult result = braid({"test", "--target", "interpreter", folder / "case"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("FAILED"));
  EXPECT_THAT(result.out, HasSubstr("0 passed, 1 failed, 0 refused\n"));
}

TEST(TestCommand, AnotherShapeIsShownBesideTheStoredOne) {
  const Folder folder;
  fs::copy(model("ops/add"), folder.path() / "case", fs::copy_options::recursive);
  fs::copy_file(model("ops/softmax_dynamic") + "/test_data_set_0/output_0.pb",
                folder / "case/test_data_set_0/output_0.pb", fs::copy_options::overwrite_existing);
  const ProcessResult result = braid({"test", "--target", "interpreter", folder / "case"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, ::testing::ContainsRegex("f32\\[[0-9, ]+\\] instead of f32\\[[0-9, ]+\\]"));
}

TEST(TestCommand, AFolderThatIsNoCaseFails) {
  const Folder folder;
  const ProcessResult result = braid({"test", folder.path().string()});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("BR0009"));
  EXPECT_THAT(result.out, HasSubstr("0 passed, 1 failed, 0 refused\n"));
}

TEST(TestCommand, OtherRanksThanTheCasesAreRefused) {
  const ProcessResult result = braid({"test", "--ranks", "3", model("collectives/all_reduce")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("BR0401"));
}

TEST(TestCommand, UnsupportedOperatorsAreRefused) {
  const Folder folder;
  fs::copy(model("ops/add"), folder.path() / "case", fs::copy_options::recursive);
  fs::copy_file(paths::source("tests/corpus/bad_models/three_unknown_ops/model.onnx"),
                folder / "case/model.onnx", fs::copy_options::overwrite_existing);
  const ProcessResult result = braid({"test", folder / "case"});
  EXPECT_THAT(result.out, HasSubstr("0 passed, 0 failed, 1 refused\n"));
  // Nothing was shown to be right.
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("all were refused"));
  const ProcessResult beside = braid({"test", "--target", "interpreter", folder / "case", model("ops/add")});
  EXPECT_EQ(beside.exit_code, 0) << beside.err;
  EXPECT_THAT(beside.out, HasSubstr("1 passed, 0 failed, 1 refused\n"));
}

TEST(TestCommand, ModelsThatCannotBeSplitOverTheRanksAreRefused) {
  const ProcessResult result = braid({"test", "--target", "interpreter", "--tp", "7", model("ops/add")});
  EXPECT_THAT(result.out, HasSubstr("BR0487"));
  EXPECT_THAT(result.out, HasSubstr("0 passed, 0 failed, 1 refused\n"));
  EXPECT_EQ(result.exit_code, 3);
}

// A sequence's file is no TensorProto, and may yet be read as one.
TEST(TestCommand, CasesWithSequencesOrOptionalsAreRefused) {
  for (const char* type : {"seq(float[2])", "optional(float[2])"}) {
    const Folder folder;
    for (const bool of_input : {true, false}) {
      onnx::ModelProto proto;
      const std::string text = std::string("<ir_version: 8, opset_import: [\"\" : 17]> g (") +
                               (of_input ? type : "float[2]") + " x) => (" + type + " y) { y = Identity(x) }";
      ASSERT_TRUE(onnx::OnnxParser::Parse(proto, text.c_str()).IsOK());
      fs::create_directories(folder.path() / "case/test_data_set_0");
      folder.file("case/model.onnx", proto.SerializeAsString());
      folder.file("case/test_data_set_0/input_0.pb", "");
      folder.file("case/test_data_set_0/output_0.pb", "");
      const ProcessResult result = braid({"test", folder / "case"});
      EXPECT_THAT(result.out, HasSubstr("0 passed, 0 failed, 1 refused\n"));
      EXPECT_THAT(result.out,
                  HasSubstr(of_input ? "input 'x' is not a tensor" : "output 'y' is not a tensor"));
    }
  }
}

// model.onnx and a data set without outputs that matter: y = Reshape(x, sizes).
std::string reshape_case(const Folder& folder, const std::vector<std::int64_t>& sizes) {
  onnx::ModelProto proto;
  EXPECT_TRUE(onnx::OnnxParser::Parse(proto,
                                      "<ir_version: 8, opset_import: [\"\" : 17]> g (float[6] x, int64[2] "
                                      "sizes) => (float[r, c] y) { y = Reshape(x, sizes) }")
                  .IsOK());
  onnx::TensorProto x, s, y;
  for (onnx::TensorProto* t : {&x, &y}) {
    t->set_data_type(onnx::TensorProto::FLOAT);
    for (int k = 0; k < 6; ++k) t->add_float_data(static_cast<float>(k));
  }
  x.add_dims(6);
  s.set_data_type(onnx::TensorProto::INT64);
  s.add_dims(2);
  for (std::int64_t size : sizes) {
    s.add_int64_data(size);
    y.add_dims(size);
  }
  const std::string name = "reshape_" + std::to_string(sizes[0]);
  fs::create_directories(folder.path() / name / "test_data_set_0");
  folder.file(name + "/model.onnx", proto.SerializeAsString());
  folder.file(name + "/test_data_set_0/input_0.pb", x.SerializeAsString());
  folder.file(name + "/test_data_set_0/input_1.pb", s.SerializeAsString());
  folder.file(name + "/test_data_set_0/output_0.pb", y.SerializeAsString());
  return (folder.path() / name).string();
}

TEST(TestCommand, InputsThatDecideShapesMayBeBound) {
  const Folder folder;
  const std::string one = reshape_case(folder, {3, 2}), other = reshape_case(folder, {2, 3});
  fs::copy(other + "/test_data_set_0", one + "/test_data_set_1", fs::copy_options::recursive);
  const ProcessResult unbound = braid({"test", one});
  EXPECT_THAT(unbound.out, HasSubstr("BR0116"));
  EXPECT_THAT(unbound.out, HasSubstr("0 passed, 0 failed, 1 refused\n"));
  for (const char* target : {"interpreter", "cpu"}) {  // each data set with its own sizes
    const ProcessResult bound = braid({"test", "--bind-shapes", "--target", target, one});
    EXPECT_EQ(bound.exit_code, 0) << bound.out;
    EXPECT_THAT(bound.out, HasSubstr("1 passed, 0 failed, 0 refused\n"));
  }
}

TEST(TestCommand, ReportsAreJson) {
  const Folder folder;
  const std::string reshape = reshape_case(folder, {3, 2}), report = folder / "report.json";
  const auto cases = [&](const std::vector<std::string>& options) {
    std::vector<std::string> words = {"test", "--target", "interpreter",   "--report",
                                      report, reshape,    model("ops/add")};
    words.insert(words.end(), options.begin(), options.end());
    braid(words);
    std::ifstream file(report);
    return nlohmann::json::parse(file);
  };
  const nlohmann::json unbound = cases({});
  EXPECT_EQ(unbound[0]["case"], reshape);
  EXPECT_EQ(unbound[0]["outcome"], "refused");
  EXPECT_EQ(unbound[0]["error"]["number"], "BR0116");
  EXPECT_EQ(unbound[0]["error"]["operator"], "Reshape");
  EXPECT_EQ(unbound[1], nlohmann::json({{"case", model("ops/add")}, {"outcome", "passed"}}));
  const nlohmann::json bound = cases({"--bind-shapes"});
  EXPECT_EQ(bound[0], nlohmann::json({{"case", reshape}, {"outcome", "passed"}, {"bound", {"sizes"}}}));
  EXPECT_EQ(bound[1], unbound[1]);
}

TEST(Verify, ProgramsOfSplitTransformersAgreeWithTheInterpreter) {
  const ProcessResult result =
      braid({"verify", model("transformers/gpt2_static_prefill_tp2/model.rank{rank}.onnx"), "--ranks", "2",
             "--random-max", "8"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("equal  rank 1 "));
  EXPECT_THAT(result.out, HasSubstr("the program and the interpreter agree\n"));
}

}  // namespace
}  // namespace braid::test
