// Faults inside of planned memory are found in generated programs, and named.
#include <algorithm>

#include "runtime/emulated/cuda_api.h"
#include "tests/codegen_cuda/plan_fault_cases.h"
#include "tests/codegen_cuda/run_case.h"

namespace braid::test {
namespace {

class PlanFaults : public CudaCase {
 protected:
  static std::vector<std::string> findings_of(const std::string& name, int steps) {
    RunOptions options;
    options.steps = steps;
    run_case(name, dims_of(name), options);
    return found();
  }
  static std::map<std::string, std::int64_t> dims_of(const std::string& name) {
    return find_case(name).build().graph.dims.empty() ? std::map<std::string, std::int64_t>{}
                                                      : std::map<std::string, std::int64_t>{{"rows", 4}};
  }
};

// Returns whether the text has all parts, one after the other.
bool says(const std::string& text, const std::vector<std::string>& parts) {
  std::size_t at = 0;
  for (const std::string& part : parts) {
    at = text.find(part, at);
    if (at == std::string::npos) return false;
    at += part.size();
  }
  return true;
}

TEST_F(PlanFaults, ProgramsWithoutFaultsReportNothing) {
  for (const char* name : {"chain", "columns", "wire", "wire_peers"}) {
    SCOPED_TRACE(name);
    RunOptions options;
    options.steps = 3;
    expect_equal(run_case(name, dims_of(name), options), 0);
    EXPECT_THAT(found(), ::testing::IsEmpty());
  }
}

// Runs `columns` or a variant as a caller would whose last output has twice the memory that it needs.
std::string run_columns(const std::string& name, std::size_t shift_of_input) {
  const BraidCudaProgram& program = *program_of(name);
  BraidCudaCreateInfo info = {};
  info.abi_version = BRAID_CUDA_ABI_VERSION;
  info.struct_size = sizeof(info);
  BraidCudaInstance* instance = nullptr;
  EXPECT_EQ(program.create(&info, &instance), BRAID_OK) << program.last_error(nullptr);
  EXPECT_EQ(program.prepare(instance, nullptr), BRAID_OK);
  std::vector<void*> memory;
  for (const std::size_t bytes : {384 + 16, 1280, 240, 2 * 1280}) {
    EXPECT_EQ(cudaMalloc(&memory.emplace_back(), bytes), cudaSuccess);
    EXPECT_EQ(cudaMemset(memory.back(), 0, bytes), cudaSuccess);
  }
  const void* inputs[] = {static_cast<char*>(memory[0]) + shift_of_input, memory[1]};
  void* outputs[] = {memory[2], memory[3]};
  BraidStatus status = program.run(instance, inputs, outputs, nullptr);
  if (status == BRAID_OK) status = program.synchronize(instance, 60000);
  const std::string message = status == BRAID_OK ? "" : program.last_error(instance);
  program.destroy(instance);
  for (void* each : memory) EXPECT_EQ(cudaFree(each), cudaSuccess);
  return message;
}

TEST_F(PlanFaults, OutputsAreWrittenInTheirSizeOnly) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  EXPECT_EQ(run_columns("columns", 0), "");
  EXPECT_THAT(found(), ::testing::IsEmpty());
  EXPECT_EQ(run_columns("columns_too_many", 0), "");
  const std::vector<std::string> texts = found();
  EXPECT_TRUE(std::any_of(texts.begin(), texts.end(), [](const std::string& text) {
    return says(text, {"undeclared access: neg_sign_kernel [/last]", "writes bytes [1280, 1296)",
                       "right behind 'last'"});
  })) << ::testing::PrintToString(texts);
}

TEST_F(PlanFaults, PointersOfTheCallerAreAligned) {
  EXPECT_EQ(run_columns("columns", 8), "run: input 'x' is not a multiple of 16 bytes");
}

TEST_F(PlanFaults, AreFoundAndNamedInEveryRun) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  EXPECT_GE(plan_fault_cases().size(), 15u);
  for (const PlanFaultCase& c : plan_fault_cases()) {
    SCOPED_TRACE(c.name);
    const std::vector<std::string> first = findings_of("fault_" + c.name, 2);
    const bool named = std::any_of(first.begin(), first.end(),
                                   [&](const std::string& text) { return says(text, c.finding); });
    EXPECT_TRUE(named) << ::testing::PrintToString(first);
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      emulated::reset_devices();
      emulated::options().max_delay = std::chrono::microseconds(200);
      emulated::options().seed = seed;
      EXPECT_EQ(findings_of("fault_" + c.name, 2), first) << "seed " << seed;
    }
    emulated::options().max_delay = std::chrono::microseconds(0);
    emulated::reset_devices();
  }
}

}  // namespace
}  // namespace braid::test
