// How run, bench and verify treat inputs and results: drawn inputs, printed values, archives, references.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/cli/braid_process.h"
#include "tests/paths.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kTwice =
    "graph twice dim n in [1, 4] input %x: f32[n, 2] %y: f32[n, 2] = pointwise { %0 = load %x %1 = add %0, "
    "%0 "
    "store %1 } output %y";

std::string twice() {
  const Folder folder;
  return compiled("twice_of_results", {folder.file("twice.braid", kTwice)});
}
std::string all_reduce() {
  return compiled("all_reduce", {model("collectives/all_reduce_dynamic/model.onnx"), "--ranks", "2", "--dim",
                                 "batch=1..4", "--dim", "sequence=1..16"});
}

TEST(DrawnInputs, AreSaidAndMarkedByRunAndBench) {
  for (const char* command : {"run", "bench"}) {
    const ProcessResult result = braid({command, twice(), "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("note: x is random (--random 1)"));
    const nlohmann::json json = nlohmann::json::parse(result.out);
    EXPECT_EQ(json["inputs"][0]["random"], true);
    EXPECT_EQ(json["inputs"][0]["seed"], 1);
  }
  const Folder folder;
  write_floats(folder / "x.npy", {1, 2}, {1, 2});
  const ProcessResult given = braid({"run", twice(), "--input", "x=" + (folder / "x.npy"), "--json"});
  EXPECT_THAT(given.err, IsEmpty());
  EXPECT_EQ(nlohmann::json::parse(given.out)["inputs"][0]["random"], false);
}

TEST(Run, PrintsValues) {
  const Folder folder;
  write_floats(folder / "x.npy", {2, 2}, {1, 2, 3, 4.5});
  const std::string input = "x=" + (folder / "x.npy");
  EXPECT_EQ(braid({"run", twice(), "--input", input, "--print"}).out,
            "y: f32[2, 2] = [[2.0, 4.0], [6.0, 9.0]]\n");
  const nlohmann::json json =
      nlohmann::json::parse(braid({"run", twice(), "--input", input, "--print", "--json"}).out);
  EXPECT_THAT(json["ranks"][0]["outputs"][0]["values"], ElementsAre(2, 4, 6, 9));
  EXPECT_THAT(braid({"run", all_reduce(), "--random", "1", "--print"}).out,
              AllOf(HasSubstr("rank 0 y: f32[4, 16, 6] = [[["), HasSubstr("rank 1 y: ")));
}

// The second command reads the archive that the first one writes: for one rank and for several.
TEST(Archives, AreWrittenAndRead) {
  const Folder folder;
  write_floats(folder / "x.npy", {2, 2}, {1, 2, 3, 4});
  const std::string program = folder.file("same.braid",
                                          "graph same dim n in [1, 4] input %x: f32[n, 2] %y: f32[n, 2] = "
                                          "pointwise { %0 = load %x %1 = add %0, %0 store %1 } output %y as "
                                          "\"x\"");
  const ProcessResult written =
      braid({"run", program, "--input", "x=" + (folder / "x.npy"), "-o", folder / "once.npz"});
  if (written.err.find("BR0017") != std::string::npos) GTEST_SKIP() << "built without libzip";
  ASSERT_EQ(written.exit_code, 0) << written.err;
  const std::string once = read_text(folder / "once.npz");
  EXPECT_EQ(once.substr(0, 2), "PK");
  EXPECT_EQ(braid({"run", program, "--input", folder / "once.npz", "--print"}).out,
            "x: f32[2, 2] = [[4.0, 8.0], [12.0, 16.0]]\n");
  // The same bytes again.
  braid({"run", program, "--input", "x=" + (folder / "x.npy"), "-o", folder / "again.npz"});
  EXPECT_EQ(read_text(folder / "again.npz"), once);

  ASSERT_EQ(braid({"run", all_reduce(), "--random", "1", "-o", folder / "ranks.npz"}).exit_code, 0);
  EXPECT_THAT(read_text(folder / "ranks.npz"), AllOf(HasSubstr("rank0/y.npy"), HasSubstr("rank1/y.npy")));

  const ProcessResult damaged = braid({"run", program, "--input", folder.file("no.npz", "PK nothing")});
  EXPECT_EQ(damaged.exit_code, 3);
  EXPECT_THAT(damaged.err, HasSubstr("BR0005"));
  const ProcessResult absent = braid({"run", program, "--input", folder / "absent.npz"});
  EXPECT_EQ(absent.exit_code, 5);
  EXPECT_THAT(absent.err, HasSubstr("BR0001"));
  const ProcessResult other = braid({"run", twice(), "--input", folder / "ranks.npz"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("BR0006"));
}

TEST(Bench, ChoosesUnitsAndPrintsPercentilesAndThroughput) {
  const ProcessResult result = braid({"bench", twice(), "--repeat", "20"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              ::testing::ContainsRegex(
                  "rank 0: 20 steps, min [0-9.]+ [nu]?m?s, median .* p90 .* p99 .*; [0-9.e+]+ steps/s"));
}

TEST(Bench, ProfileNamesKernelsWithTheirRoof) {
  const Folder folder;
  const std::string text = folder.file("twice.braid", kTwice);
  const ProcessResult result = braid({"bench", text, "--repeat", "3", "--profile", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json profile = nlohmann::json::parse(result.out)["profile"];
  EXPECT_GT(profile["roof"]["gb_s"], 0);
  ASSERT_EQ(profile["nodes"].size(), 1u);
  EXPECT_EQ(profile["nodes"][0]["name"], "y");
  EXPECT_TRUE(profile["nodes"][0]["far_below_roof"].is_boolean());
  EXPECT_GT(profile["nodes"][0]["gb_s"], 0);
  // For a compiled folder only the times are known.
  const ProcessResult program = braid({"bench", twice(), "--repeat", "3", "--profile"});
  EXPECT_THAT(program.out, HasSubstr("compile from the model for GFLOP/s and GB/s"));
}

// A kernel, a collective, a kernel.
constexpr const char* kReduced = R"(graph reduced
ranks 2
group @all = [0, 1]
input %x: f32[64]
%t: f32[64] = pointwise { %0 = load %x %1 = add %0, %0 store %1 }
%r: f32[64] = all_reduce sum @all (%t) as reduce
%r.1 mutates %r = wait reduce
release reduce
%y: f32[64] output = pointwise { %0 = load %r.1 %1 = add %0, %0 store %1 }
output %y
)";

TEST(Bench, ProfileOfACudaProgramCountsLaunchesOperationsAndBytesOnTheEmulatedDevice) {
  const Folder folder;
  const std::string source = folder.file("reduced.braid", kReduced);
  const std::vector<std::string> bench = {"bench",    source,     "--target", "cuda",     "--device",
                                          "emulated", "--repeat", "2",        "--profile"};
  const ProcessResult text = braid(bench);
  ASSERT_EQ(text.exit_code, 0) << text.err;
  const std::size_t counted = text.out.find(
      "the emulated device has no times: launches per step, and operations and bytes as the cost model "
      "counts them");
  ASSERT_NE(counted, std::string::npos) << text.out;
  EXPECT_THAT(text.out.substr(0, counted), HasSubstr("predicted for 'h200', not measured"));
  EXPECT_THAT(text.out.substr(counted),
              AllOf(HasSubstr("launches"), Not(HasSubstr(" us")), Not(HasSubstr(" ms"))));
  std::vector<std::string> json = bench;
  json.insert(json.end(), {"--json", "--ranks-as-processes"});
  const ProcessResult processes = braid(json);
  ASSERT_EQ(processes.exit_code, 0) << processes.err;
  const nlohmann::json profile = nlohmann::json::parse(processes.out)["profile"];
  EXPECT_FALSE(profile["timed"]);
  ASSERT_EQ(profile["nodes"].size(), 3u) << profile;
  for (const nlohmann::json& node : profile["nodes"]) {
    EXPECT_EQ(node["launches"], 1) << node;
    EXPECT_FALSE(node.contains("median_ns"));
  }
  // The collective; then a copy of 64 floats, and twice as many operations as elements.
  EXPECT_FALSE(profile["nodes"][1].contains("flops"));
  EXPECT_EQ(profile["nodes"][2]["bytes"], 2 * 64 * 4);
  EXPECT_EQ(profile["nodes"][2]["flops"], 64);
}

TEST(Verify, ComparesWithStoredResultsAndShowsTheWorstElement) {
  const Folder folder;
  write_floats(folder / "x.npy", {2, 2}, {1, 2, 3, 4});
  const std::string input = "x=" + (folder / "x.npy");
  ASSERT_EQ(braid({"run", twice(), "--input", input, "-o", folder / "stored"}).exit_code, 0);
  const std::vector<std::string> verify = {"verify", twice(),       "--input",
                                           input,    "--reference", folder / "stored"};
  const ProcessResult equal = braid(verify);
  EXPECT_EQ(equal.exit_code, 0) << equal.out << equal.err;
  write_floats(folder / "stored/y.npy", {2, 2}, {2, 4, 6.5, 8.001f});
  const ProcessResult differs = braid(verify);
  EXPECT_EQ(differs.exit_code, 1);
  EXPECT_THAT(differs.out,
              AllOf(HasSubstr("DIFFERS rank 0 y"), HasSubstr("worst at [1, 0]: 6.0 instead of 6.5")));
  std::vector<std::string> tolerant = verify;
  tolerant.insert(tolerant.end(), {"--rtol", "0.1"});
  EXPECT_EQ(braid(tolerant).exit_code, 0);
}

TEST(Verify, NamesTheNodeBehindAWrongOutput) {
  const Folder folder;
  const std::string add = model("ops/add");
  ASSERT_EQ(
      braid({"run", add + "/model.onnx", "--default-dim", "3", "--random", "1", "-o", folder / "stored"})
          .exit_code,
      0);
  const ProcessResult differs = braid({"verify", add + "/model.onnx", "--default-dim", "3", "--random", "2",
                                       "--reference", folder / "stored", "--json"});
  EXPECT_EQ(differs.exit_code, 1) << differs.err;
  EXPECT_THAT(nlohmann::json::parse(differs.out)["outputs"][0]["node"].get<std::string>(), Not(IsEmpty()));
}

// Programs whose Softmax is wrong.
const std::vector<std::string> kWrongExp = {"BRAID_CXXFLAGS=-O0 -include " +
                                            paths::source("tests/cli/wrong_exp.h")};
std::string softmax_model() { return model("ops/softmax_between_products") + "/model.onnx"; }

void expect_softmax_named(const ProcessResult& result, const std::string& value, int inner_values) {
  EXPECT_EQ(result.exit_code, 1) << result.err;
  const nlohmann::json said = nlohmann::json::parse(result.out);
  EXPECT_FALSE(said["agree"]);
  EXPECT_EQ(said["inner_values"], inner_values);
  const nlohmann::json& first = said["first_deviation"];
  EXPECT_EQ(first["node"], "soft");
  EXPECT_EQ(first["value"], value);
  EXPECT_EQ(first["rank"], 0);
  EXPECT_THAT(first["worst"].get<std::string>(),
              ::testing::ContainsRegex("^\\[[0-3], [0-7]\\]: [0-9.e-]+ instead of "));
}

TEST(Verify, NamesTheFirstNodeThatDiffers) {
  expect_softmax_named(braid({"verify", softmax_model(), "--json"}, {}, kWrongExp), "s", 3);
  const ProcessResult text = braid({"verify", softmax_model(), "--rtol", "1e-3"}, {}, kWrongExp);
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_THAT(text.out, AllOf(HasSubstr("first node that differs: 'soft' (Softmax), rank 0, value 's': "),
                              HasSubstr("  worst at [")));
  // A larger tolerance than the fault.
  EXPECT_EQ(braid({"verify", softmax_model(), "--rtol", "10"}, {}, kWrongExp).exit_code, 0);
}

TEST(Verify, NamesTheFirstNodeOfATextThatDiffers) {
  const Folder folder;
  ASSERT_EQ(
      braid({"compile", softmax_model(), "--name", "soft", "--emit", "ir", "-o", folder / "text"}).exit_code,
      0);
  const ProcessResult result = braid({"verify", folder / "text/soft.braid", "--json"}, {}, kWrongExp);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_EQ(nlohmann::json::parse(result.out)["first_deviation"]["node"], "soft");
}

// The plan in the text is one for values that are not kept.
TEST(Verify, NamesTheFirstNodeOfATextWithAPlanThatDiffers) {
  const Folder folder;
  ASSERT_EQ(braid({"compile", softmax_model(), "--name", "soft", "--emit", "schedule", "-o", folder / "text"})
                .exit_code,
            0);
  ASSERT_THAT(read_text(folder / "text/soft.braid"), HasSubstr("\nplan "));
  const ProcessResult result = braid({"verify", folder / "text/soft.braid", "--json"}, {}, kWrongExp);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_EQ(nlohmann::json::parse(result.out)["first_deviation"]["node"], "soft");
}

// A program is right, its reference is not the interpreter: no node is to blame.
TEST(Verify, NamesNoNodeAfterStoredResultsOrEqualOnes) {
  const Folder folder;
  ASSERT_EQ(braid({"run", softmax_model(), "--random", "1", "-o", folder / "stored"}).exit_code, 0);
  const ProcessResult differs =
      braid({"verify", softmax_model(), "--random", "2", "--reference", folder / "stored", "--json"});
  EXPECT_EQ(differs.exit_code, 1);
  EXPECT_FALSE(nlohmann::json::parse(differs.out).contains("first_deviation"));
  const ProcessResult equal = braid({"verify", softmax_model(), "--json"});
  EXPECT_EQ(equal.exit_code, 0);
  EXPECT_FALSE(nlohmann::json::parse(equal.out).contains("first_deviation"));
}

TEST(Verify, NamesTheFirstNodeThatDiffersFromOnnxRuntime) {
  const std::string python = python_of_the_project();
  if (python.empty()) GTEST_SKIP() << "no Python environment (scripts/python_env.sh)";
  std::vector<std::string> environment = kWrongExp;
  environment.push_back("BRAID_PYTHON=" + python);
  expect_softmax_named(
      braid({"verify", softmax_model(), "--reference", "onnxruntime", "--json"}, {}, environment), "s", 3);
}

// In the Python environment of the project's scripts, where it is made.
TEST(Verify, AgreesWithOnnxRuntime) {
  const std::string python = python_of_the_project();
  if (python.empty()) GTEST_SKIP() << "no Python environment (scripts/python_env.sh)";
  const ProcessResult result =
      braid({"verify", model("ops/add") + "/model.onnx", "--default-dim", "3", "--reference", "onnxruntime"},
            {}, {"BRAID_PYTHON=" + python});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("the program and onnxruntime agree"));
}

TEST(Verify, SaysWhatAReferenceNeeds) {
  const ProcessResult program = braid({"verify", twice()});
  EXPECT_EQ(program.exit_code, 2);
  EXPECT_THAT(program.err, HasSubstr("give --reference DIR"));
  const ProcessResult python =
      braid({"verify", model("ops/add") + "/model.onnx", "--default-dim", "3", "--reference", "onnxruntime"},
            {}, {"BRAID_PYTHON=/bin/false"});
  EXPECT_EQ(python.exit_code, 4);
  EXPECT_THAT(python.err, AllOf(HasSubstr("BR0018"), HasSubstr("pip install onnxruntime")));
}

}  // namespace
}  // namespace braid::test
