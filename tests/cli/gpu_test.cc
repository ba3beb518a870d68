// Runs braid as on a machine with GPUs: the driver and nvcc are stand-ins (fake_gpu/), and the programs that
// they build run on the emulated device.
#include <gmock/gmock.h>

#include <sstream>
#include <utility>

#include "tests/cli/braid_process.h"
#include "tests/cli/paths.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr const char* kTwice = R"(graph twice
dim n in [1, 4]
input %x: f32[n]
%y: f32[n] = pointwise {
  %0 = load %x
  %1 = add %0, %0
  store %1
}
output %y
)";

std::vector<std::string> with_gpus(int count, const std::string& nvcc_log = "/dev/null") {
  return {"LD_LIBRARY_PATH=" + paths::fake_driver(), "BRAID_FAKE_GPUS=" + std::to_string(count),
          // nvcc instruments nothing, so nothing can be checked.
          "BRAID_EMULATED_CHECK=0", "CUDA_HOME=" + paths::fake_toolkit(),
          "BRAID_FAKE_GPU_LIBRARY=" + paths::emulated_device(), "BRAID_FAKE_NVCC_LOG=" + nvcc_log};
}

// The lines of nvcc's log that contain `word`.
std::vector<std::string> nvcc_calls(const std::string& log, const std::string& word) {
  std::istringstream lines(read_text(log));
  std::vector<std::string> found;
  for (std::string line; std::getline(lines, line);) {
    if (line.find(word) != std::string::npos) found.push_back(line);
  }
  return found;
}

std::string source_of(const Folder& folder) {
  const ProcessResult result = braid({"compile", folder.file("model.braid", kTwice), "--target", "cuda",
                                      "--emit", "source", "-o", folder / "out"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return folder / "out";
}

TEST(Gpu, WithoutOneProgramsRunEmulatedAndALineSaysSo) {
  const Folder folder;
  const std::string program = source_of(folder);
  for (const std::vector<std::string>& gpus : {std::vector<std::string>(), with_gpus(0)}) {
    const ProcessResult run = braid({"run", program, "--random", "1"}, {}, gpus);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.err, AllOf(HasSubstr("NVIDIA's driver"), HasSubstr("runs on the emulated device")));
    const ProcessResult chosen = braid({"run", program, "--random", "1", "--device", "emulated"}, {}, gpus);
    EXPECT_EQ(chosen.exit_code, 0);
    EXPECT_THAT(chosen.err, IsEmpty());
    const ProcessResult gpu = braid({"run", program, "--random", "1", "--device", "gpu"}, {}, gpus);
    EXPECT_EQ(gpu.exit_code, 4);
    EXPECT_THAT(gpu.err, HasSubstr("BR0013"));
  }
}

TEST(Gpu, EmulatedStepsHaveNoTimes) {
  const Folder folder;
  const std::string program = source_of(folder);
  for (const char* command : {"bench", "run"}) {
    const ProcessResult result =
        braid({command, program, "--random", "1", "--repeat", "4", "--device", "emulated"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("times mean nothing"));
    EXPECT_THAT(result.out + result.err, Not(ContainsRegex("[0-9] [mun]s")));
  }
}

TEST(Gpu, ProgramsAreBuiltForItAndTimedWithItsNameDriverAndClocks) {
  const Folder folder;
  const std::string program = source_of(folder);
  const std::vector<std::string> gpu = with_gpus(1, folder / "log");
  for (int again = 0; again < 2; ++again) {
    const ProcessResult bench =
        braid({"bench", program, "--random", "1", "--repeat", "300", "--warmup", "2"}, {}, gpu);
    EXPECT_EQ(bench.exit_code, 0) << bench.err;
    EXPECT_THAT(bench.err, IsEmpty());
    EXPECT_THAT(bench.out,
                HasSubstr("on Fake GPU 0 (sm_90), driver 590.44, CUDA 13.2, SM clock 1700 of 1980 MHz, "
                          "memory clock 2600 of 2619 MHz"));
    EXPECT_THAT(bench.out, ContainsRegex("rank 0: 300 steps, min [0-9.]+ [um]s, median [0-9.]+ [um]s"));
  }
  // Built once, for the GPU that there is, and for later ones.
  EXPECT_THAT(nvcc_calls(folder / "log", " -shared "),
              ElementsAre(HasSubstr("-gencode=arch=compute_90,code=[sm_90,compute_90]")));
  EXPECT_THAT(folder.names(), Contains("out/model.cuda.so"));
  EXPECT_THAT(folder.names(), Not(Contains("out/model.emulated.so")));
}

TEST(Gpu, ASecondProgramCompilesNothingOfTheRuntimeAgain) {
  const Folder folder;
  std::vector<std::string> environment = with_gpus(1, folder / "log");
  environment.push_back("BRAID_CACHE_DIR=" + folder / "cache");
  std::string square = kTwice;
  square.replace(square.find("add"), 3, "mul");
  for (const auto& [name, text] : {std::pair("twice", std::string(kTwice)), std::pair("square", square)}) {
    const std::string file = folder.file(std::string(name) + ".braid", text);
    const ProcessResult result =
        braid({"compile", file, "--target", "cuda:sm_90", "-o", folder / name}, {}, environment);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const ProcessResult run = braid({"run", folder / name, "--random", "1"}, {}, environment);
    EXPECT_EQ(run.exit_code, 0) << run.err;
  }
  EXPECT_THAT(nvcc_calls(folder / "log", " -c "),
              ElementsAre(HasSubstr("/twice.cu"), HasSubstr("/runtime.cc"), HasSubstr("/kernels.cu"),
                          HasSubstr("/square.cu")));
  EXPECT_THAT(nvcc_calls(folder / "log", " -shared "), SizeIs(2));
}

TEST(Gpu, ProgramsAreBuiltForAllThatThereAre) {
  const Folder folder;
  const ProcessResult run =
      braid({"run", source_of(folder), "--random", "1"}, {}, with_gpus(3, folder / "log"));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(nvcc_calls(folder / "log", " -shared "),
              ElementsAre(AllOf(HasSubstr("code=sm_80"), HasSubstr("code=[sm_90,compute_90]"))));
}

TEST(Gpu, TestAndVerifyRunThere) {
  const Folder folder;
  const ProcessResult verify =
      braid({"verify", folder.file("twice.braid", kTwice), "--target", "cuda"}, {}, with_gpus(1));
  EXPECT_EQ(verify.exit_code, 0) << verify.err;
  EXPECT_THAT(verify.err, IsEmpty());
  const ProcessResult cases = braid({"test", "--ranks", "2", "--target", "cuda", "--device", "gpu",
                                     model("collectives/all_reduce_dynamic")},
                                    {}, with_gpus(2, folder / "log"));
  EXPECT_EQ(cases.exit_code, 0) << cases.out << cases.err;
  EXPECT_THAT(read_text(folder / "log"), HasSubstr("compute_90"));
}

TEST(Gpu, EveryRankNeedsOne) {
  const Folder folder;
  const std::string program = compiled(
      "all_reduce_source", {model("collectives/all_reduce_dynamic/model.onnx"), "--ranks", "2", "--target",
                            "cuda", "--emit", "source", "--dim", "batch=1..4", "--dim", "sequence=1..16"});
  const ProcessResult one = braid({"run", program, "--random", "1"}, {}, with_gpus(1));
  EXPECT_EQ(one.exit_code, 4);
  EXPECT_THAT(one.err, AllOf(HasSubstr("BR0013"), HasSubstr("2 ranks"), HasSubstr("1 GPU")));
  const ProcessResult two =
      braid({"run", program, "--random", "1", "-o", folder / "results"}, {}, with_gpus(2));
  EXPECT_EQ(two.exit_code, 0) << two.err;
  EXPECT_THAT(folder.names(), Contains("results/rank1"));
}

// Emulated: the other rank would wait for it in a collective.
TEST(Gpu, ARankThatCannotBeginKeepsTheOthersFromTheirSteps) {
  const Folder folder;
  const ProcessResult compiled =
      braid({"compile", model("collectives/row_split_linear/model.rank{rank}.onnx"), "--ranks", "2",
             "--target", "cuda", "--dim", "batch=1..4", "--emit", "source", "-o", folder / "out"});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  const std::string weights = folder / "out/weights.rank1.bin";
  std::string bytes = read_text(weights);
  bytes[70] = static_cast<char>(bytes[70] ^ 1);
  fs::remove(weights);  // it may be a link
  folder.file("out/weights.rank1.bin", bytes);
  const ProcessResult run = braid({"run", folder / "out", "--random", "1", "--device", "emulated"});
  EXPECT_EQ(run.exit_code, 4);
  EXPECT_THAT(run.err, AllOf(HasSubstr("rank 1"), HasSubstr("is damaged")));
}

TEST(Gpu, AChoiceForACpuProgramIsRefused) {
  const Folder folder;
  for (const char* device : {"gpu", "emulated"}) {
    const ProcessResult result =
        braid({"run", folder.file("twice.braid", kTwice), "--device", device}, {}, with_gpus(1));
    EXPECT_EQ(result.exit_code, 2);
    // The file that was given, not the folder that it is compiled in.
    EXPECT_THAT(result.err, AllOf(HasSubstr("BR0003"), HasSubstr(folder / "twice.braid:")));
  }
  EXPECT_NE(braid({"run", folder / "twice.braid", "--device", "tpu"}).exit_code, 0);
  const ProcessResult interpreter =
      braid({"test", "--target", "interpreter", "--device", "gpu", folder / "case"});
  EXPECT_EQ(interpreter.exit_code, 2);
  EXPECT_THAT(interpreter.err, HasSubstr("BR0003"));
}

}  // namespace
}  // namespace braid::test
