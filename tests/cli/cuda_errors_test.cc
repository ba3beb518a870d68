// A faulty run gives the same error with both targets: number, text and exit code.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/cli/braid_process.h"

namespace braid::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// y = a + b needs n == m; z is a window of 4 over c.
constexpr const char* kModel = R"(graph sizes
dim n in [0, 8]
dim m in [0, 8]
guard n == m from "/Add"
guard 4 <= n from "/Conv"
input %a: f32[n, 3]
input %b: f32[m, 3]
%y: f32[n, 3] output = pointwise { %0 = load %a %1 = load %b[3 * i0 + i1] %2 = add %0, %1 store %2 }
%z: f32[n - 3, 3] output = pointwise { %0 = load %a[3 * i0 + i1] %1 = neg %0 store %1 }
output %y
output %z
)";

struct Given {
  const char* what;
  std::vector<std::int64_t> a, b;
};

TEST(CudaErrors, AreThoseOfACpuProgram) {
  const Folder folder;
  const std::string model = folder.file("sizes.braid", kModel);
  const std::vector<Given> wrong = {
      {"BR0724: program 'sizes': /Add: n == m does not hold for n = 5, m = 6", {5, 3}, {6, 3}},
      {"BR0724: program 'sizes': /Conv: 4 <= n does not hold for n = 1, m = 1", {1, 3}, {1, 3}},
      {"BR0724: program 'sizes': /Conv: 4 <= n does not hold for n = 0, m = 0", {0, 3}, {0, 3}},
      {"BR0724: program 'sizes': dimension 'n' is 9, but the program was compiled for 0 to 8",
       {9, 3},
       {9, 3}},
      {"BR0723: input 'a' has shape", {5, 4}, {5, 3}},
      {"BR0723: input 'b' has shape", {5, 3}, {5, 4}},
  };
  for (const Given& given : wrong) {
    SCOPED_TRACE(given.what);
    const auto file = [&](const char* name, const std::vector<std::int64_t>& shape) {
      std::size_t count = 1;
      for (std::int64_t size : shape) count *= static_cast<std::size_t>(size);
      write_floats(folder / name, shape, std::vector<float>(count, 1.0f));
      return folder / name;
    };
    const std::vector<std::string> inputs = {"--input", "a=" + file("a.npy", given.a), "--input",
                                             "b=" + file("b.npy", given.b)};
    const auto run = [&](std::vector<std::string> target) {
      std::vector<std::string> arguments = {"run", model};
      arguments.insert(arguments.end(), target.begin(), target.end());
      arguments.insert(arguments.end(), inputs.begin(), inputs.end());
      return braid(arguments);
    };
    const ProcessResult cpu = run({"--target", "cpu"});
    const ProcessResult cuda = run({"--target", "cuda", "--device", "emulated"});
    EXPECT_EQ(cpu.exit_code, 3) << cpu.err;
    EXPECT_EQ(cuda.exit_code, cpu.exit_code);
    EXPECT_EQ(cuda.err, cpu.err);
    EXPECT_THAT(cuda.err, HasSubstr(given.what));
    EXPECT_THAT(cuda.out, IsEmpty());
  }
}

// Users need not know the folder of a program that is compiled for one run.
TEST(CudaErrors, DoNotNameTemporaryFolders) {
  const Folder folder;
  const std::string model = folder.file("sizes.braid", kModel);
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"run", model, "--device", "gpu"},
        {"run", model, "--target", "cuda", "--device", "emulated", "--dim", "n=2", "--dim", "m=2"},
        {"run", model, "--target", "cuda", "--device", "emulated", "--trace", folder / "trace.json"}}) {
    const ProcessResult result = braid(arguments);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.err, Not(::testing::ContainsRegex("/braid-[0-9]+-"))) << result.err;
  }
}

}  // namespace
}  // namespace braid::test
