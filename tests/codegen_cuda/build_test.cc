#include "codegen/cuda/build.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "codegen/cuda/write_program.h"
#include "ir/error.h"
#include "runtime/cuda_abi.h"
#include "tests/codegen_cuda/cases.h"
#include "tests/paths.h"
#include "tests/support/user_error.h"

namespace braid::test {
namespace {

namespace fs = std::filesystem;
using namespace codegen::cuda;

class Build : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all(dir_); }
  void TearDown() override { fs::remove_all(dir_); }
  const fs::path dir_ = fs::path(::testing::TempDir()) / ("braid_cuda_build." + std::to_string(getpid()));

  void write(bool standalone = false) {
    const ir::Schedule s = find_case("layers_2").build();
    codegen::ProgramFolder folder(dir_.string());
    write_cuda(emit_cuda(s, {.name = "layers"}), s, folder, standalone);
    folder.publish();
  }
};

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST_F(Build, WritesSourceHeaderWeightsAndManifest) {
  write();
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(dir_)) names.push_back(entry.path().filename().string());
  EXPECT_THAT(names,
              ::testing::UnorderedElementsAre("layers.cu", "layers.h", "weights.bin", "manifest.json"));
  const auto m = nlohmann::json::parse(read(dir_ / "manifest.json"));
  EXPECT_EQ(m["target"], "cuda");
  EXPECT_EQ(m["ranks"], 2);
  EXPECT_EQ(m["entry"], "braid_cuda_program_layers");
}

TEST_F(Build, TheEmulatedLibraryHasTheProgram) {
  write();
  const std::string library = build_emulated(dir_.string(), "layers");
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  void* entry = dlsym(handle, "braid_cuda_program_layers");
  ASSERT_NE(entry, nullptr);
  const BraidCudaProgram* program = reinterpret_cast<BraidCudaProgramFunction>(entry)();
  EXPECT_EQ(program->abi_version, BRAID_CUDA_ABI_VERSION);
  EXPECT_STREQ(program->name, "layers");
  EXPECT_NE(dlsym(handle, "braid_cuda_host_run"), nullptr);
}

TEST_F(Build, SourceThatDoesNotCompileLeavesNoLibrary) {
  write();
  std::ofstream(dir_ / "layers.cu") << "this is not C++";
  EXPECT_THAT(error_of([&] { build_emulated(dir_.string(), "layers"); }), ::testing::HasSubstr("BR0603"));
  EXPECT_FALSE(fs::exists(dir_ / "layers.emulated.so"));
  EXPECT_THAT(error_of([&] { build_nvcc(dir_.string(), "layers", {"hopper"}); }),
              ::testing::HasSubstr("BR0643"));
  if (!find_nvcc()) GTEST_SKIP() << "no nvcc: its error message is not tested";
  EXPECT_THAT(error_of([&] { build_nvcc(dir_.string(), "layers", {"sm_90"}); }),
              ::testing::HasSubstr("BR0644"));
}

TEST_F(Build, NvccLinksTheProgramForTwoArchitectures) {
  if (!find_nvcc()) GTEST_SKIP() << "no nvcc";
  write();
  EXPECT_TRUE(fs::exists(build_nvcc(dir_.string(), "layers")));
}

// Configured for both, and the program compiled; building the emulated device as well takes a minute.
TEST_F(Build, AStandaloneFolderNeedsNothingElse) {
  if (std::system("cmake --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no cmake";
  write(true);
  const fs::path moved = dir_.string() + ".moved", build = moved / "build";
  fs::rename(dir_, moved);
  const auto shell = [&](const std::string& command) {
    return std::system(
        ("cd " + moved.string() + " && env -u BRAID_RUNTIME_DIR " + command + " >log 2>&1").c_str());
  };
  EXPECT_EQ(shell("cmake -G 'Unix Makefiles' -S . -B build -DBRAID_EMULATED=ON"), 0) << read(moved / "log");
  EXPECT_EQ(shell("cmake --build build --target layers.cu.o"), 0) << read(moved / "log");
  const bool configured = shell("cmake -G 'Unix Makefiles' -S . -B real") == 0;
  EXPECT_EQ(configured, read(moved / "log").find("missing:") == std::string::npos) << read(moved / "log");
  fs::remove_all(moved);
}

TEST_F(Build, AStandaloneFolderBecomesAPlainOneAndKeepsForeignFiles) {
  write(true);
  EXPECT_TRUE(fs::exists(dir_ / "runtime" / "cuda_instance.h"));
  std::ofstream(dir_ / "runtime" / "notes.txt") << "mine";
  write();
  EXPECT_FALSE(fs::exists(dir_ / "CMakeLists.txt"));
  EXPECT_FALSE(fs::exists(dir_ / "runtime" / "device"));
  EXPECT_TRUE(fs::exists(dir_ / "runtime" / "notes.txt"));
  std::ofstream(dir_ / "CMakeLists.txt") << "mine";
  EXPECT_THAT(error_of([&] { write(true); }), ::testing::HasSubstr("BR0015"));
  EXPECT_EQ(read(dir_ / "CMakeLists.txt"), "mine");
  // Never written through a link.
  fs::remove(dir_ / "CMakeLists.txt");
  fs::remove_all(dir_ / "runtime");
  fs::create_directory_symlink(fs::temp_directory_path(), dir_ / "runtime");
  EXPECT_THAT(error_of([&] { write(true); }), ::testing::HasSubstr("BR0015"));
}

// Whole sources of small programs, to be read in review. BRAID_UPDATE_GOLDEN=1 writes them anew.
class GoldenSource : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenSource, IsAsInTheFile) {
  const std::string name = GetParam();
  const ir::Schedule s = find_case(name).build();
  const CudaProgram program = emit_cuda(s, {.name = name});
  const std::string source = cuda_source(std::span(&program, 1));
  const fs::path file = paths::source("tests/codegen_cuda/" + name + ".cu.txt");
  if (std::getenv("BRAID_UPDATE_GOLDEN") != nullptr) std::ofstream(file, std::ios::binary) << source;
  EXPECT_EQ(source, read(file));
}

INSTANTIATE_TEST_SUITE_P(Build, GoldenSource, ::testing::Values("golden", "tensor_parallel"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace braid::test
