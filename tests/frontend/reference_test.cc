// Operators with random attributes and shapes, which tests/frontend/reference/make_cases.py writes together with what
// ONNX's reference evaluator or NumPy computes, run by the interpreter, as imported and after the default passes.
#include <gtest/gtest.h>

#include "frontend/import.h"
#include "ir/interpreter.h"
#include "passes/default_passes.h"
#include "passes/runner.h"
#include "tests/support/onnx_cases.h"
#include "tests/support/schedule_checks.h"

namespace braid::frontend {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder)) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

// Expected values are rounded once to the type; a few roundings may lie between them and ours.
double tolerance(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::f64:
      return 1e-9;
    case ir::DType::f16:
      return 4e-3;
    case ir::DType::bf16:
      return 3e-2;
    default:
      return 2e-5;
  }
}

// What is wrong with the results; empty if nothing is.
std::string difference(const ir::Schedule& schedule, const test::DataSet& data) {
  const std::vector<std::vector<ir::Tensor>> inputs = {data.inputs};
  const std::vector<ir::Tensor> outputs = ir::run(schedule, inputs).outputs[0];
  if (outputs.size() != data.outputs.size()) return "another number of outputs";
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const double t = tolerance(data.outputs[k].dtype);
    const std::string found = test::difference(outputs[k], data.outputs[k], t, t);
    if (!found.empty()) return fmt::format("output {}: {}", k, found);
  }
  return {};
}

// What is wrong with the case; empty if nothing is.
std::string complaint(const fs::path& folder) {
  std::string path;
  const ImportOptions options = test::import_options_of(folder, path);
  try {
    ir::Schedule schedule = import_model(path, options);
    if (std::string wrong = test::text_and_verifier_complaints(schedule); !wrong.empty()) return wrong;
    const auto sets = test::read_data_sets(folder, 1);
    if (sets.empty()) return "no data";
    if (std::string wrong = difference(schedule, sets[0][0]); !wrong.empty()) return wrong;
    passes::run_passes(schedule, passes::default_passes(), {});
    if (std::string wrong = difference(schedule, sets[0][0]); !wrong.empty()) return "optimised: " + wrong;
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

TEST(ReferenceCases, OperatorsComputeWhatOnnxDefines) {
  const fs::path root = fs::path(BRAID_TEST_MODELS) / "reference";
  if (!fs::exists(root)) GTEST_SKIP() << "no cases in " << root << "; ctest makes them";
  for (const fs::path& op : sorted_entries(root)) {
    int count = 0, wrong = 0;
    for (const fs::path& folder : sorted_entries(op)) {
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
