// Environment variables: an invalid value is an error that names the variable, before anything is written or
// started; an empty one counts as unset.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/cli/braid_process.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kScaledText =
    "graph twice\ninput %x: f32[2]\n%y: f32[2] output = pointwise { %0 = load %x %1 = add %0, %0 store %1 "
    "}\noutput %y\n";

struct Variable {
  const char* name;
  bool cuda;                        // read by CUDA programs only
  std::vector<const char*> wrong;   // besides those that no variable may have
  std::vector<const char*> beside;  // what makes it count
};
std::ostream& operator<<(std::ostream& out, const Variable& variable) { return out << variable.name; }

const std::vector<const char*> kTorchrun = {"RANK=0", "WORLD_SIZE=1"};
const std::vector<const char*> kOpenMpi = {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1"};
const std::vector<const char*> kSlurm = {"SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=1"};

const Variable kVariables[] = {
    {"BRAID_TIMEOUT_MS", false, {"0", "1000000000001", "1e3"}, {}},
    {"BRAID_ENGINE", false, {"SHM", "shm,mpi"}, {}},
    {"BRAID_COMM_WORKER", false, {"ON", "1"}, {}},
    {"BRAID_HALF_KERNELS", false, {"avx2", "baseline"}, {}},
    {"BRAID_BYTE_KERNELS", false, {"AVX2", "widened"}, {}},
    {"BRAID_WINOGRAD", false, {"2", "off", "false"}, {}},
    {"BRAID_LOG", false, {"schedule", "overlap,memory"}, {}},
    {"MASTER_PORT", false, {"0", "65536", "http"}, {}},
    {"BRAID_MASTER_PORT", false, {"0", "65536", "http"}, {}},
    {"TMPDIR", false, {"/dev/null", "/etc/passwd", "/nowhere/at/all"}, {}},
    {"RANK", false, {"1", "7"}, kTorchrun},
    {"WORLD_SIZE", false, {"0"}, kTorchrun},
    {"LOCAL_RANK", false, {"1"}, kTorchrun},
    {"LOCAL_WORLD_SIZE", false, {"0", "2"}, kTorchrun},
    {"OMPI_COMM_WORLD_RANK", false, {"1"}, kOpenMpi},
    {"OMPI_COMM_WORLD_SIZE", false, {"0"}, kOpenMpi},
    {"OMPI_COMM_WORLD_LOCAL_RANK", false, {"1"}, kOpenMpi},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", false, {"0", "2"}, kOpenMpi},
    {"SLURM_PROCID", false, {"1"}, kSlurm},
    {"SLURM_STEP_NUM_TASKS", false, {"0"}, kSlurm},
    {"SLURM_LOCALID", false, {"1"}, kSlurm},
    {"SLURM_STEP_TASKS_PER_NODE", false, {"0", "2", "1,x", "1,", "2(x3)"}, kSlurm},
    {"BRAID_CUDA_GRAPHS", true, {"2", "yes"}, {}},
    {"BRAID_CUDA_TUNE", true, {"2", "yes"}, {}},
    {"BRAID_EMULATED_DEVICES", true, {"0", "1025"}, {}},
    {"BRAID_EMULATED_MEMORY_MB", true, {"0"}, {}},
    {"BRAID_EMULATED_TIMEOUT_MS", true, {"0"}, {}},
    {"BRAID_EMULATED_HANG_MS", true, {"0"}, {}},
    {"BRAID_EMULATED_DELAY_US", true, {"1000000001"}, {}},
    {"BRAID_EMULATED_SEED", true, {}, {}},
    {"BRAID_EMULATED_DETERMINISTIC", true, {"2"}, {}},
    {"BRAID_EMULATED_SHARED_KB", true, {"47", "228"}, {}},
    {"BRAID_EMULATED_SYMMETRIC", true, {"2"}, {}},
    {"BRAID_EMULATED_MISALIGNED_POINTERS", true, {"2"}, {}},
    {"BRAID_EMULATED_CHECK", true, {"2", "true"}, {}},
    {"BRAID_EMULATED_PRINT", true, {"2"}, {}},
};

class Environment : public ::testing::TestWithParam<Variable> {
 protected:
  // Runs the model with this value of the variable in the environment.
  ProcessResult run(const std::string& model, const Folder& folder, const std::string& value) const {
    const Variable& variable = GetParam();
    std::vector<std::string> environment(variable.beside.begin(), variable.beside.end());
    environment.push_back(variable.name + ("=" + value));
    std::vector<std::string> arguments = {"run", model, "--random", "1", "-o", folder / "out"};
    if (variable.cuda) arguments.insert(arguments.end(), {"--device", "emulated"});
    if (variable.cuda && model.ends_with(".braid")) arguments.insert(arguments.end(), {"--target", "cuda"});
    return braid(arguments, {}, environment);
  }
};
INSTANTIATE_TEST_SUITE_P(Of, Environment, ::testing::ValuesIn(kVariables),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(Environment, AnInvalidValueIsAnErrorThatNamesTheVariable) {
  std::vector<const char*> wrong = {"garbage", "-1", "99999999999999999999", "1 ", " 1", "0x1", "+1"};
  wrong.insert(wrong.end(), GetParam().wrong.begin(), GetParam().wrong.end());
  for (const char* value : wrong) {
    SCOPED_TRACE(value);
    const Folder folder;
    const ProcessResult result = run(folder.file("twice.braid", kScaledText), folder, value);
    EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
    EXPECT_THAT(result.err,
                AllOf(AnyOf(HasSubstr("BR0012"), HasSubstr("BR0011")), HasSubstr(GetParam().name)));
    EXPECT_THAT(folder.names(), ::testing::ElementsAre("twice.braid"));
  }
}

TEST_P(Environment, AnEmptyValueCountsAsUnset) {
  const Folder folder;
  const bool cuda = GetParam().cuda;
  std::vector<std::string> arguments = {folder.file("twice.braid", kScaledText)};
  if (cuda) arguments.insert(arguments.end(), {"--target", "cuda", "--emit", "source"});
  const ProcessResult result =
      run(compiled(cuda ? "environment_cuda" : "environment", arguments), folder, "");
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST(Environment, AFolderForTemporaryOnesThatTakesNoneIsNamed) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  const Folder folder;
  const std::string text = folder.file("twice.braid", kScaledText);
  ::mkdir((folder / "tmp").c_str(), 0500);
  const ProcessResult result = braid({"run", text, "--random", "1"}, {}, {"TMPDIR=" + folder / "tmp"});
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.err, AllOf(HasSubstr("BR0010"), HasSubstr("TMPDIR")));
}

}  // namespace
}  // namespace braid::test
