// Operators with random attributes and shapes, run by the interpreter, as imported and after the default
// passes. tests/frontend/reference/make_cases.py writes them together with the results of ONNX's reference
// evaluator or NumPy.
#include <gtest/gtest.h>

#include "frontend/import.h"
#include "ir/interpreter.h"
#include "passes/default_passes.h"
#include "passes/runner.h"
#include "tests/paths.h"
#include "tests/support/onnx_cases.h"
#include "tests/support/schedule_checks.h"

namespace braid::frontend {
namespace {

namespace fs = std::filesystem;

// Returns the complaint about the case; empty if there is none.
std::string complaint(const fs::path& folder) {
  std::string path;
  const ImportOptions options = test::import_options_of(folder, path);
  try {
    ir::Schedule schedule = import_model(path, options);
    if (std::string wrong = test::text_and_verifier_complaints(schedule); !wrong.empty()) return wrong;
    const auto sets = test::read_data_sets(folder, 1);
    if (sets.empty()) return "no data";
    const std::vector<std::vector<ir::Tensor>> inputs = {sets[0][0].inputs};
    const auto wrong_results = [&] {
      return test::reference_difference(ir::run(schedule, inputs).outputs[0], sets[0][0].outputs);
    };
    if (std::string wrong = wrong_results(); !wrong.empty()) return wrong;
    passes::run_passes(schedule, passes::default_passes(), {});
    if (std::string wrong = wrong_results(); !wrong.empty()) return "optimised: " + wrong;
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

TEST(ReferenceCases, OperatorsComputeWhatOnnxDefines) {
  const fs::path root = paths::test_models("reference");
  if (!fs::exists(root)) GTEST_SKIP() << "no cases in " << root << "; ctest makes them";
  for (const fs::path& op : test::sorted_entries(root)) {
    int count = 0, wrong = 0;
    for (const fs::path& folder : test::sorted_entries(op)) {
      ++count;
      const std::string text = complaint(folder);
      if (text.empty()) continue;
      ++wrong;
      ADD_FAILURE() << op.filename().string() << " " << folder.filename().string() << ": " << text;
    }
    fmt::print("{}: {} cases, {} wrong\n", op.filename().string(), count, wrong);
  }
}

}  // namespace
}  // namespace braid::frontend
