// ONNX's node cases and random cases of operators as CUDA programs on the emulated device: cases that the
// interpreter passes give the same results, and no finding. Many cases share one library. The fast tier takes
// some cases, the deep one (scripts/test_deep.sh) all of ONNX's and several random ones of each operator.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "codegen/cuda/build.h"
#include "codegen/cuda/write_program.h"
#include "codegen/temp_dir.h"
#include "driver/compile.h"
#include "ir/interpreter.h"
#include "runtime/cuda_host.h"
#include "tests/emulated/support.h"
#include "tests/paths.h"
#include "tests/support/onnx_node_case.h"
#include "tests/support/random.h"

namespace braid::test {
namespace {

constexpr std::size_t kCasesPerLibrary = 64;
constexpr std::size_t kSampleEvery = 40;

using Difference = std::string (*)(const std::vector<ir::Tensor>& outputs, const NodeCase& expected);

struct CudaNodeCase {
  NodeCase node_case;
  codegen::cuda::CudaProgram program;
};

std::vector<char> contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::int64_t> actual(const std::vector<ir::Expr>& sizes,
                                 const std::map<std::string, std::int64_t>& dims) {
  std::vector<std::int64_t> out;
  for (const ir::Expr& size : sizes)
    out.push_back(ir::evaluate(size, [&](ir::Expr dim) { return dims.at(dim.dim_name()); }));
  return out;
}

// A library of several programs.
class Library {
 public:
  explicit Library(const std::map<std::string, CudaNodeCase>& cases) {
    std::vector<codegen::cuda::CudaProgram> programs;
    for (const auto& [name, c] : cases) programs.push_back(c.program);
    std::ofstream(folder_.path() + "/cases.cu") << codegen::cuda::cuda_source(programs);
    const std::string path = codegen::cuda::build_emulated(folder_.path(), "cases");
    handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) throw std::runtime_error(::dlerror());
  }
  ~Library() {
    if (handle_ != nullptr) ::dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  std::vector<ir::Tensor> run(const std::string& name, const CudaNodeCase& c) const {
    const ir::Graph& graph = c.node_case.schedule.graph;
    const codegen::TempDir weights_of;
    codegen::write_weights(graph, c.program.weights, c.program.id, weights_of.path());
    const std::vector<char> weights = contents(weights_of.path() + "/weights.bin"),
                            of_rank = contents(weights_of.path() + "/weights.rank0.bin");
    const auto sizes = ir::bind_dims(graph, c.node_case.inputs);
    std::vector<const void*> in;
    std::vector<void*> out;
    std::vector<ir::Tensor> outputs;
    for (const ir::Tensor& t : c.node_case.inputs) in.push_back(t.bytes.data());
    for (const ir::GraphOutput& o : graph.outputs)
      outputs.push_back(ir::make_tensor(graph[o.buffer].dtype, actual(graph[o.buffer].sizes, sizes)));
    for (ir::Tensor& t : outputs) out.push_back(t.bytes.data());
    const std::vector<std::int64_t> dims = actual(graph.dims, sizes);
    const BraidCudaHostRank rank = {in.data(), out.data(), of_rank.data(), of_rank.size()};
    BraidCudaHostRun run = {};
    run.struct_size = sizeof run;
    run.program = function<BraidCudaProgramFunction>("braid_cuda_program_" + name)();
    run.weights = weights.data();
    run.weights_bytes = weights.size();
    run.ranks = &rank;
    run.dims = dims.data();
    run.steps = 1;
    run.reuses_buffers = 1;
    run.timeout_ms = 60000;
    char message[512] = {};
    if (function<decltype(&braid_cuda_host_run)>("braid_cuda_host_run")(&run, message, sizeof message) !=
        BRAID_OK)
      throw std::runtime_error(message);
    return outputs;
  }

 private:
  template <class Function>
  Function function(const std::string& name) const {
    void* const found = ::dlsym(handle_, name.c_str());
    if (found == nullptr) throw std::runtime_error("no " + name);
    return reinterpret_cast<Function>(found);
  }

  codegen::TempDir folder_;
  void* handle_ = nullptr;
};

class CudaOnnxCases : public EmulatedTest {
 protected:
  // Returns how many pass; what the target refuses is counted by reason.
  int compile_and_run(const std::vector<fs::path>& paths, NodeCase (*read)(const fs::path&),
                      Difference difference) {
    int passed = 0;
    for (std::size_t k = 0; k < paths.size(); k += kCasesPerLibrary) {
      const std::size_t end = std::min(k + kCasesPerLibrary, paths.size());
      passed += run_some(
          {paths.begin() + static_cast<std::ptrdiff_t>(k), paths.begin() + static_cast<std::ptrdiff_t>(end)},
          read, difference);
    }
    return passed;
  }

  std::map<std::string, int> refused_;

 private:
  int run_some(const std::vector<fs::path>& paths, NodeCase (*read)(const fs::path&), Difference difference) {
    CompileOptions options;
    options.target = "cuda";
    std::map<std::string, CudaNodeCase> cases;
    for (std::size_t k = 0; k < paths.size(); ++k) {
      SCOPED_TRACE(paths[k]);
      const std::string name = fmt::format("case_{}", k);
      try {
        NodeCase node_case = read(paths[k]);
        if (!node_case.refused.empty()) continue;
        optimise(node_case.schedule, options);
        codegen::cuda::CudaProgram program = codegen::cuda::emit_cuda(node_case.schedule, {.name = name});
        cases.emplace(name, CudaNodeCase{std::move(node_case), std::move(program)});
      } catch (const ir::UserError& error) {
        if (error.code() == errors::kNotInCuda)
          ++refused_[error.what()];
        else
          ADD_FAILURE() << error.what();
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    }
    if (cases.empty()) return 0;
    int passed = 0;
    const Library library(cases);
    for (const auto& [name, c] : cases) {
      SCOPED_TRACE(paths[std::stoul(name.substr(name.find('_') + 1))]);
      try {
        const std::string wrong = difference(library.run(name, c), c.node_case);
        EXPECT_EQ(wrong, "");
        const std::vector<std::string> findings = found();
        EXPECT_TRUE(findings.empty()) << findings[0];
        passed += wrong.empty() && findings.empty();
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    }
    return passed;
  }
};

// The page that names what this target refuses has each reason.
void expect_documented(const std::map<std::string, int>& refused) {
  const std::vector<char> page = contents(paths::source("docs/onnx-support.md"));
  const std::string text(page.begin(), page.end());
  static constexpr const char* kReasons[] = {"extern kernel 'quantised_lstm'", "a 'branch' region",
                                             "a 'repeat' region", "a 'while' region", "the size '"};
  for (const char* reason : kReasons)
    EXPECT_NE(text.find(fmt::format("`{}", reason)), std::string::npos) << reason;
  for (const auto& [why, count] : refused) {
    fmt::print("{} refused: {}\n", count, why);
    EXPECT_TRUE(std::ranges::any_of(kReasons, [&](const char* reason) {
      return why.find(reason) != std::string::npos;
    })) << why;
  }
}

TEST_F(CudaOnnxCases, PassOnTheEmulatedDevice) {
  std::vector<fs::path> paths = node_cases(paths::onnx_cases());
  if (paths.empty()) GTEST_SKIP() << "tests/models/make_onnx_cases.py has written no cases";
  if (!is_deep()) paths = every(kSampleEvery, paths);
  const int passed = compile_and_run(paths, read_node_case, difference);
  fmt::print("ONNX node cases as CUDA programs: {} of {} pass\n", passed, paths.size());
  expect_documented(refused_);
}

TEST_F(CudaOnnxCases, RandomCasesPassOnTheEmulatedDevice) {
  constexpr std::size_t kOfEachOperator = 4;
  const fs::path root = paths::test_models("reference");
  if (!fs::exists(root)) GTEST_SKIP() << "no cases in " << root << "; ctest makes them";
  std::vector<fs::path> paths = reference_cases(root, is_deep() ? kOfEachOperator : 1);
  if (!is_deep()) paths = every(kSampleEvery, paths);
  const int passed = compile_and_run(paths, read_reference_case,
                                     [](const std::vector<ir::Tensor>& outputs, const NodeCase& reference) {
                                       return reference_difference(outputs, reference.expected);
                                     });
  fmt::print("random cases as CUDA programs: {} of {} pass\n", passed, paths.size());
  expect_documented(refused_);
}

}  // namespace
}  // namespace braid::test
