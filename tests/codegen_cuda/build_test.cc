#include "codegen/cuda/build.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "codegen/cuda/write_program.h"
#include "ir/error.h"
#include "runtime/cuda_abi.h"
#include "tests/codegen_cuda/cases.h"
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

  void write() {
    const ir::Schedule s = find_case("layers_2").build();
    codegen::ProgramFolder folder(dir_.string());
    write_cuda(emit_cuda(s, {.name = "layers"}), s, folder);
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

// The whole source of a small program, to be read in review. BRAID_UPDATE_GOLDEN=1 writes it anew.
TEST_F(Build, GoldenSource) {
  const ir::Schedule s = find_case("golden").build();
  const CudaProgram program = emit_cuda(s, {.name = "golden"});
  const std::string source = cuda_source(std::span(&program, 1));
  const fs::path file = fs::path(BRAID_SOURCE_DIR) / "tests/codegen_cuda/golden.cu.txt";
  if (std::getenv("BRAID_UPDATE_GOLDEN") != nullptr) std::ofstream(file, std::ios::binary) << source;
  EXPECT_EQ(source, read(file));
}

}  // namespace
}  // namespace braid::test
