// braid compile and run: files in, files out, on one rank and on two.
#include <gmock/gmock.h>
#include <onnx/onnx_pb.h>

#include <csignal>
#include <thread>

#include "tests/cli/braid_process.h"
#include "tests/paths.h"
#include "tests/support/onnx_parser.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// y = 2 x + bias on one rank.
constexpr const char* kAffine = R"(graph affine
dim n in [1, 4]
input %x: f32[n, 2]
constant %bias: f32[2] = [10, 20]
%y: f32[n, 2] = pointwise {
  %0 = load %x
  %1 = constant f32 2
  %2 = mul %0, %1
  %3 = load %bias[i1]
  %4 = add %2, %3
  store %4
}
output %y
)";

std::string affine() {
  const Folder folder;
  return compiled("affine", {folder.file("affine.braid", kAffine)});
}
std::string reduced_program() {
  return compiled("all_reduce", {model("collectives/all_reduce_dynamic/model.onnx"), "--ranks", "2", "--dim",
                                 "batch=1..4", "--dim", "sequence=1..16"});
}

TEST(Run, OutputsWhoseNamesBecomeOneFileNameAreAllWritten) {
  const Folder folder;
  const std::string text = folder.file(
      "both.braid",
      "graph both input %x: f32[2] %y: f32[2] output = pointwise { %0 = load %x %1 = neg %0 store %1 } "
      "output %x as \"a/b\" output %y as \"a_b\"");
  write_floats(folder / "x.npy", {2}, {1, 2});
  const ProcessResult result =
      braid({"run", text, "--input", "x=" + (folder / "x.npy"), "-o", folder / "out"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(read_floats(folder / "out/a_b.npy"), (std::vector<float>{1, 2}));
  EXPECT_EQ(read_floats(folder / "out/a_b_2.npy"), (std::vector<float>{-1, -2}));
}

TEST(Run, ReadsAndWritesNpyFiles) {
  const Folder folder;
  write_floats(folder / "x.npy", {2, 2}, {1, 2, 3, 4});
  const ProcessResult result =
      braid({"run", affine(), "--input", "x=" + (folder / "x.npy"), "-o", folder / "results"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "y: f32[2, 2]\n");
  EXPECT_THAT(read_floats(folder / "results/y.npy"), ElementsAre(12, 24, 16, 28));
}

TEST(Run, RanksTakeTheirOwnInputsAndAFileForAllGoesToTheOthers) {
  const Folder folder;
  write_floats(folder / "zero.npy", {1, 1, 6}, {0, 0, 0, 0, 0, 0});
  write_floats(folder / "a.npy", {1, 1, 6}, {1, 2, 3, 4, 5, 6});
  write_floats(folder / "b.npy", {1, 1, 6}, {10, 20, 30, 40, 50, 60});
  auto run = [&](const std::string& name, const std::vector<std::string>& inputs) {
    std::vector<std::string> arguments = {"run", reduced_program(), "--ranks", "2", "-o", folder / name};
    for (const std::string& i : inputs) arguments.insert(arguments.end(), {"--input", i});
    const ProcessResult result = braid(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const std::vector<float> first = read_floats(folder / (name + "/rank0/y.npy"));
    EXPECT_EQ(first, read_floats(folder / (name + "/rank1/y.npy")));
    return first;
  };
  // The model adds something of its own to the sum over the ranks: what the inputs add is the difference to
  // zeros.
  const auto none = run("none", {"x=" + folder / "zero.npy"});
  const auto own = run("own", {"x@0=" + folder / "a.npy", "x@1=" + folder / "b.npy"});
  const auto mixed = run("mixed", {"x=" + folder / "a.npy", "x@1=" + folder / "b.npy"});
  EXPECT_EQ(own, mixed);
  EXPECT_NE(own, none);
}

TEST(Run, EqualSeedsGiveEqualResultsOnProcessesAndOnThreads) {
  const Folder folder;
  std::vector<float> results[3];
  for (int k = 0; k < 3; ++k) {
    const std::string out = folder / std::to_string(k);
    std::vector<std::string> arguments = {"run",      reduced_program(),
                                          "--random", k == 2 ? "8" : "7",
                                          "--dim",    "batch=2",
                                          "--dim",    "sequence=3",
                                          "-o",       out};
    if (k == 1) arguments.push_back("--ranks-as-threads");
    const ProcessResult result = braid(arguments);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    results[k] = read_floats(out + "/rank1/y.npy");
    EXPECT_EQ(results[k].size(), 36u);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_NE(results[0], results[2]);
}

TEST(Run, RandomIndicesStayWithinTheirAxis) {
  const Folder folder;
  onnx::ModelProto proto;
  ASSERT_TRUE(
      onnx::OnnxParser::Parse(
          proto,
          "<ir_version: 8, opset_import: [\"\" : 17]> g (float[rows, 3] x, int64[64] i, int64[64] k) => "
          "(float[64, 3] y, int64[64] z) { y = Gather(x, i) z = Identity(k) }")
          .IsOK());
  const std::string path = folder.file("gather.onnx", proto.SerializeAsString());
  for (const char* rows : {"rows=7", "rows=1..5"}) {
    for (const char* seed : {"1", "2"}) {
      const ProcessResult result = braid({"run", path, "--dim", rows, "--random", seed});
      EXPECT_EQ(result.exit_code, 0) << result.err;
    }
  }
  EXPECT_EQ(braid({"verify", path, "--dim", "rows=7", "--random-max", "1000"}).exit_code, 0);
}

// Between fuse_epilogues and legalise a schedule has epilogues that no kernel computes.
TEST(Verify, LegalisesWhatABisectedListLeaves) {
  const std::string decoder = paths::source("tests/corpus/exported/torch_decoder-script17-static/model.onnx");
  for (const char* passes : {"7", "9"}) {
    const ProcessResult result = braid({"verify", decoder, "--bisect", passes});
    EXPECT_EQ(result.exit_code, 0) << passes << ": " << result.err;
  }
}

TEST(Run, OutputsMayHaveAnyNumberOfDimensions) {
  const Folder folder;
  std::string ones;
  for (int k = 0; k < 39; ++k) ones += "1, ";
  onnx::ModelProto proto;
  ASSERT_TRUE(onnx::OnnxParser::Parse(proto, ("<ir_version: 8, opset_import: [\"\" : 17]> g (float[" + ones +
                                              "2] x) => (float[" + ones + "2] y, float[2, " + ones +
                                              "1] z) { y = Neg(x) e = Constant <value_ints = [0]> () u = "
                                              "Unsqueeze(x, e) t = Constant <value_ints = [2, " +
                                              ones + "1]> () z = Reshape(u, t) }")
                                                 .c_str())
                  .IsOK());
  const std::string path = folder.file("deep.onnx", proto.SerializeAsString());
  const ProcessResult result = braid({"run", path, "--random", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "y: f32[" + ones + "2]\nz: f32[2, " + ones + "1]\n");
}

TEST(Run, RepeatedStepsAreTimed) {
  const ProcessResult result = braid({"run", affine(), "--random", "1", "--repeat", "3", "--warmup", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("rank 0: median "));
  EXPECT_THAT(result.out, HasSubstr(" ms of 3 steps"));
}

TEST(Bench, PrintsTheTimesOfEveryRank) {
  const ProcessResult result = braid({"bench", reduced_program(), "--repeat", "3"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("rank 0: 3 steps, min "));
  EXPECT_THAT(result.out, HasSubstr("rank 1: 3 steps, min "));
}

TEST(Bench, ServesOneStepPerLine) {
  const ProcessResult result = braid({"bench", affine(), "--serve"}, "run\nwhat\nrun\n");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, ::testing::MatchesRegex("[0-9]+\n[0-9]+\n"));
}

TEST(Bench, ServingSeveralRanksIsRefused) {
  const ProcessResult result = braid({"bench", reduced_program(), "--serve"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("BR0003"));
}

struct WrongInput {
  std::string name;
  std::vector<std::int64_t> shape;  // of x
  std::string error, mentions;
};

class WrongInputs : public ::testing::TestWithParam<WrongInput> {};

TEST_P(WrongInputs, AreRefusedAndNothingIsWritten) {
  const Folder folder;
  std::int64_t elements = 1;
  for (std::int64_t s : GetParam().shape) elements *= s;
  write_floats(folder / "x.npy", GetParam().shape, std::vector<float>(static_cast<std::size_t>(elements)));
  const ProcessResult result =
      braid({"run", affine(), "--input", "x=" + (folder / "x.npy"), "-o", folder / "results"});
  EXPECT_EQ(result.exit_code, code_of(GetParam().error)) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr(GetParam().error));
  EXPECT_THAT(result.err, HasSubstr(GetParam().mentions));
  EXPECT_FALSE(fs::exists(folder / "results"));
}

INSTANTIATE_TEST_SUITE_P(
    Run, WrongInputs,
    ::testing::Values(
        WrongInput{"Shape", {2, 3}, "BR0723", "'x' has shape [2, 3], expected [n, 2] with n = 1..4"},
        WrongInput{"Rank", {2}, "BR0723", "'x' has shape [2], expected [n, 2] with n = 1..4"},
        WrongInput{"Bound", {5, 2}, "BR0724", "n"}),
    [](const auto& info) { return info.param.name; });

TEST(Run, AnInputOfAnotherTypeIsRefused) {
  const Folder folder;
  const std::string dir = affine();
  write_floats(folder / "x.npy", {1, 2}, {1, 2});
  std::string text = read_text(folder / "x.npy");
  text.replace(text.find("<f4"), 3, "<i4");
  folder.file("x.npy", text);
  const ProcessResult result = braid({"run", dir, "--input", "x=" + (folder / "x.npy")});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, AllOf(HasSubstr("BR0723"), HasSubstr("is i32, expected f32"),
                                HasSubstr("x.astype(numpy.float32)")));
}

TEST(Run, WhatIsNotGivenIsNamed) {
  const Folder folder;
  const ProcessResult none = braid({"run", affine(), "-o", folder / "results"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("BR0006"));
  EXPECT_THAT(none.err, HasSubstr("'x'"));
  EXPECT_THAT(none.err, HasSubstr("--random"));
  write_floats(folder / "x.npy", {1, 2}, {1, 2});
  const ProcessResult other = braid({"run", affine(), "--input", "z=" + folder / "x.npy"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("BR0006"));
}

TEST(Run, FilesThatAreNoArraysAreRefused) {
  const Folder folder;
  for (const std::string& file : {folder.file("text.npy", "12 13"), folder.file("short.npy", "\x93NUMPY")}) {
    const ProcessResult result = braid({"run", affine(), "--input", "x=" + file});
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_THAT(result.err, HasSubstr("BR0005"));
    EXPECT_THAT(result.err, HasSubstr(file));
  }
  const ProcessResult absent = braid({"run", affine(), "--input", "x=" + (folder / "absent.npy")});
  EXPECT_EQ(absent.exit_code, 5);
  EXPECT_THAT(absent.err, HasSubstr("BR0001"));
}

TEST(Run, AProgramForOtherRanksIsRefused) {
  const ProcessResult result = braid({"run", reduced_program(), "--ranks", "3", "--random", "1"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("BR0401"));
  EXPECT_THAT(result.err, HasSubstr("for 2 ranks, but --ranks is 3"));
}

TEST(Run, ABrokenManifestIsNoProgram) {
  const Folder folder;
  folder.file("manifest.json", "{}");
  const ProcessResult result = braid({"run", folder.path().string(), "--random", "1"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("BR0008"));
}

TEST(Run, AFolderWithoutAProgramIsNoModel) {
  const Folder folder;
  for (const char* command : {"run", "bench", "explain", "check", "verify"}) {
    const ProcessResult result = braid({command, folder.path().string()});
    EXPECT_EQ(result.exit_code, 3) << command;
    EXPECT_THAT(result.err, AllOf(HasSubstr("BR0008"), HasSubstr("there is no compiled program here")))
        << command;
  }
}

// Rank 1 looks up a row that is not there; rank 0 waits for it in the AllReduce.
constexpr const char* kLookup = R"(graph lookup
ranks 2
group @world = [0, 1]
input %table: f32[4]
input %at: f32[2]
%rows: f32[2] comm(symmetric, @world) = pointwise {
  %0 = load %at
  %1 = cast i64 %0
  %2 = check_index %1, 4
  %3 = load %table[%2]
  store %3
}
%sum: f32[2] comm(symmetric, @world) = all_reduce sum @world (%rows)
%sum.1 mutates %sum = wait sum
release sum
%y: f32[2] = pointwise {
  %0 = load %sum.1
  store %0
}
output %y
)";

TEST(Run, AFailingRankIsNamedAndEndsTheOthers) {
  const Folder folder;
  const std::string dir = compiled("lookup", {folder.file("lookup.braid", kLookup)});
  write_floats(folder / "table.npy", {4}, {1, 2, 3, 4});
  write_floats(folder / "good.npy", {2}, {0, 3});
  write_floats(folder / "bad.npy", {2}, {0, 4});
  const std::vector<std::string> common = {"run",     dir,
                                           "--input", "table=" + folder / "table.npy",
                                           "--input", "at=" + folder / "good.npy",
                                           "-o",      folder / "results"};
  const ProcessResult good = braid(common);
  ASSERT_EQ(good.exit_code, 0) << good.err;
  EXPECT_THAT(read_floats(folder / "results/rank0/y.npy"), ElementsAre(2, 8));
  fs::remove_all(folder / "results");
  std::vector<std::string> wrong = common;
  wrong.insert(wrong.end(), {"--input", "at@1=" + folder / "bad.npy"});
  const ProcessResult bad = braid(wrong);
  EXPECT_EQ(bad.exit_code, 4);
  EXPECT_THAT(bad.err, HasSubstr("BR0007"));
  EXPECT_THAT(bad.err, HasSubstr("BR0725"));  // what rank 1 says
  EXPECT_THAT(bad.err, HasSubstr("BR0726"));  // what rank 0 says
  EXPECT_FALSE(fs::exists(folder / "results"));
}

TEST(Run, AKilledRankEndsTheRunWithAnErrorThatNamesIt) {
  const ProcessResult result =
      braid({"run", reduced_program(), "--random", "1", "--repeat", "1000000"}, {}, {}, [](int process) {
        // Both ranks run once they are there; a moment later they are in the middle of their steps.
        for (int k = 0; k < 1000 && children_of(process).size() < 2; ++k)
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        const std::vector<int> ranks = children_of(process);
        ASSERT_EQ(ranks.size(), 2u);
        ::kill(ranks[1], SIGKILL);
      });
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("rank 1"));
}

}  // namespace
}  // namespace braid::test
