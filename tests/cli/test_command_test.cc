// braid test and verify.
#include <gmock/gmock.h>
#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>

#include "tests/cli/braid_process.h"

namespace braid::test {
namespace {

using ::testing::HasSubstr;

TEST(TestCommand, CasesPassOnTwoRanksAndOnOne) {
  const ProcessResult result =
      braid({"test", model("collectives/row_split_linear"), model("ops/gemm_all_attributes")});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("2 passed, 0 failed, 0 skipped\n"));
  EXPECT_THAT(result.out, HasSubstr("max relative error"));
}

TEST(TestCommand, ACompiledProgramIsRunOnTheCasesData) {
  const std::string data = model("collectives/all_reduce_dynamic");
  const std::string program = compiled(
      "all_reduce", {data + "/model.onnx", "--ranks", "2", "--dim", "batch=1..4", "--dim", "sequence=1..16"});
  const ProcessResult result = braid({"test", data, "--program", program}, {}, {"CXX=false"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("1 passed, 0 failed, 0 skipped\n"));
  const ProcessResult other = braid({"test", model("collectives/all_reduce_4_ranks"), "--program", program});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.out, HasSubstr("BR0401"));
}

TEST(TestCommand, InterpreterNeedsNoHostCompiler) {
  const ProcessResult result =
      braid({"test", "--target", "interpreter", "-q", model("ops/softmax_dynamic")}, {}, {"CXX=false"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(result.out, "1 passed, 0 failed, 0 skipped\n");
}

TEST(TestCommand, OtherResultsThanTheStoredOnesFail) {
  const Folder folder;
  fs::copy(model("ops/add"), folder.path() / "case", fs::copy_options::recursive);
  fs::copy_file(folder / "case/test_data_set_0/input_0.pb", folder / "case/test_data_set_0/output_0.pb",
                fs::copy_options::overwrite_existing);
  const ProcessResult result = braid({"test", "--target", "interpreter", folder / "case"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("FAILED"));
  EXPECT_THAT(result.out, HasSubstr("0 passed, 1 failed, 0 skipped\n"));
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
  EXPECT_THAT(result.out, HasSubstr("0 passed, 1 failed, 0 skipped\n"));
}

TEST(TestCommand, OtherRanksThanTheCasesAreRefused) {
  const ProcessResult result = braid({"test", "--ranks", "3", model("collectives/all_reduce")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("BR0401"));
}

TEST(TestCommand, UnsupportedOperatorsAreSkipped) {
  const Folder folder;
  fs::copy(model("ops/add"), folder.path() / "case", fs::copy_options::recursive);
  fs::copy_file(std::string(BRAID_SOURCE_DIR) + "/tests/corpus/bad_models/three_unknown_ops/model.onnx",
                folder / "case/model.onnx", fs::copy_options::overwrite_existing);
  const ProcessResult result = braid({"test", folder / "case"});
  EXPECT_THAT(result.out, HasSubstr("0 passed, 0 failed, 1 skipped\n"));
  // Nothing was shown to be right.
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("all were skipped"));
  const ProcessResult beside = braid({"test", "--target", "interpreter", folder / "case", model("ops/add")});
  EXPECT_EQ(beside.exit_code, 0) << beside.err;
  EXPECT_THAT(beside.out, HasSubstr("1 passed, 0 failed, 1 skipped\n"));
}

// A sequence's file is no TensorProto, and may yet be read as one.
TEST(TestCommand, CasesWithSequencesOrOptionalsAreSkipped) {
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
      EXPECT_THAT(result.out, HasSubstr("0 passed, 0 failed, 1 skipped\n"));
      EXPECT_THAT(result.out,
                  HasSubstr(of_input ? "input 'x' is not a tensor" : "output 'y' is not a tensor"));
    }
  }
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
