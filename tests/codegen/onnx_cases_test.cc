// ONNX's node cases, compiled: every case that the interpreter passes (tests/frontend/onnx_node_suite_test.cc) gives the
// same as a program. Many cases share one library, since the host compiler needs longer for its headers than for a case.
// The fast tier takes some cases, the deep one (scripts/test_deep.sh) all of them.
#include <gtest/gtest.h>

#include "driver/compile.h"
#include "tests/codegen/compiled.h"
#include "tests/support/onnx_node_case.h"
#include "tests/support/random.h"

namespace braid::test {
namespace {

constexpr std::size_t kCasesPerLibrary = 100;
constexpr std::size_t kSampleEvery = 16;

// Compiles the cases into one library and runs each.
void expect_cases_pass(const std::vector<fs::path>& paths, int& passed) {
  Compiled compiled("-O1 -march=native");
  std::map<std::string, NodeCase> cases;
  for (std::size_t k = 0; k < paths.size(); ++k) {
    SCOPED_TRACE(paths[k].filename());
    const std::string name = fmt::format("case_{}", k);
    try {
      NodeCase node_case = read_node_case(paths[k]);
      if (!node_case.refused.empty()) continue;
      optimise(node_case.schedule, {});
      compiled.add_schedule(name, node_case.schedule);
      cases.emplace(name, std::move(node_case));
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
  if (cases.empty()) return;
  compiled.build();
  for (const auto& [name, node_case] : cases) {
    SCOPED_TRACE(paths[std::stoul(name.substr(name.find('_') + 1))].filename());
    try {
      rt::Program program = compiled.open(name);
      const std::string wrong = difference(compiled.run(program, node_case.inputs), node_case);
      EXPECT_EQ(wrong, "");
      passed += wrong.empty();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

TEST(OnnxCases, CompiledProgramsPass) {
  std::vector<fs::path> paths = node_cases(BRAID_ONNX_CASES);
  if (paths.empty()) GTEST_SKIP() << "tests/models/make_onnx_cases.py has written no cases";
  const bool all = random_cases(100) >= 100 * 100;  // BRAID_RANDOM_SCALE as scripts/test_deep.sh sets it
  if (!all) {
    std::vector<fs::path> sample;
    for (std::size_t k = 0; k < paths.size(); k += kSampleEvery) sample.push_back(paths[k]);
    paths = std::move(sample);
  }
  int passed = 0;
  for (std::size_t k = 0; k < paths.size(); k += kCasesPerLibrary) {
    const auto first = paths.begin() + static_cast<std::ptrdiff_t>(k);
    const auto last =
        paths.begin() + static_cast<std::ptrdiff_t>(std::min(k + kCasesPerLibrary, paths.size()));
    expect_cases_pass({first, last}, passed);
  }
  fmt::print("compiled ONNX node cases: {} of {} pass\n", passed, paths.size());
}

}  // namespace
}  // namespace braid::test
