// ONNX's node cases and random cases of operators, compiled: cases that the interpreter passes
// (tests/frontend/onnx_node_suite_test.cc, reference_test.cc) give the same results as programs. Many cases
// share one library, since the host compiler needs longer for its headers than for a case. The fast tier
// takes some cases, the deep one (scripts/test_deep.sh) all of ONNX's and several random ones of each
// operator.
#include <gtest/gtest.h>

#include "driver/compile.h"
#include "tests/codegen/compiled.h"
#include "tests/paths.h"
#include "tests/support/onnx_node_case.h"
#include "tests/support/random.h"

namespace braid::test {
namespace {

constexpr std::size_t kCasesPerLibrary = 100;
constexpr std::size_t kSampleEvery = 16;

struct Suite {
  NodeCase (*read)(const fs::path& folder);
  std::string (*difference)(const std::vector<ir::Tensor>& outputs, const NodeCase& expected);
};

// Compiles the cases into one library and runs each.
void expect_cases_pass(const std::vector<fs::path>& paths, const Suite& suite, int& passed) {
  Compiled compiled("-O1 -march=native");
  std::map<std::string, NodeCase> cases;
  for (std::size_t k = 0; k < paths.size(); ++k) {
    SCOPED_TRACE(paths[k]);
    const std::string name = fmt::format("case_{}", k);
    try {
      NodeCase node_case = suite.read(paths[k]);
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
    SCOPED_TRACE(paths[std::stoul(name.substr(name.find('_') + 1))]);
    try {
      rt::Program program = compiled.open(name);
      const std::string wrong = suite.difference(compiled.run(program, node_case.inputs), node_case);
      EXPECT_EQ(wrong, "");
      passed += wrong.empty();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

// Returns how many pass.
int compile_and_run(const std::vector<fs::path>& paths, const Suite& suite) {
  int passed = 0;
  for (std::size_t k = 0; k < paths.size(); k += kCasesPerLibrary) {
    const auto first = paths.begin() + static_cast<std::ptrdiff_t>(k);
    const auto last =
        paths.begin() + static_cast<std::ptrdiff_t>(std::min(k + kCasesPerLibrary, paths.size()));
    expect_cases_pass({first, last}, suite, passed);
  }
  return passed;
}

TEST(OnnxCases, CompiledProgramsPass) {
  std::vector<fs::path> paths = node_cases(paths::onnx_cases());
  if (paths.empty()) GTEST_SKIP() << "tests/models/make_onnx_cases.py has written no cases";
  if (!is_deep()) paths = every(kSampleEvery, paths);
  const int passed = compile_and_run(paths, {read_node_case, difference});
  fmt::print("compiled ONNX node cases: {} of {} pass\n", passed, paths.size());
}

TEST(ReferenceCases, CompiledProgramsPass) {
  constexpr std::size_t kOfEachOperator = 10;
  const fs::path root = paths::test_models("reference");
  if (!fs::exists(root)) GTEST_SKIP() << "no cases in " << root << "; ctest makes them";
  std::vector<fs::path> paths = reference_cases(root, is_deep() ? kOfEachOperator : 1);
  if (!is_deep()) paths = every(kSampleEvery, paths);
  const auto difference = [](const std::vector<ir::Tensor>& outputs, const NodeCase& reference) {
    return reference_difference(outputs, reference.expected);
  };
  const int passed = compile_and_run(paths, {read_reference_case, difference});
  fmt::print("compiled random cases: {} of {} pass\n", passed, paths.size());
}

}  // namespace
}  // namespace braid::test
