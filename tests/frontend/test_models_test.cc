// The models that tests/models/make_models.py writes and those that PyTorch exported, run by the interpreter
// and compared with ONNX Runtime's results.
#include <gtest/gtest.h>

#include "frontend/import.h"
#include "ir/interpreter.h"
#include "tests/paths.h"
#include "tests/support/onnx_cases.h"
#include "tests/support/schedule_checks.h"

namespace braid::frontend {
namespace {

namespace fs = std::filesystem;

// Runs every data set of every case below `root`. Half types get tolerances of their own.
void run_cases(const fs::path& root, double rtol, double atol) {
  std::vector<fs::path> cases;
  for (const auto& entry : fs::directory_iterator(root)) cases.push_back(entry.path());
  std::sort(cases.begin(), cases.end());
  for (const fs::path& folder : cases) {
    SCOPED_TRACE(folder.filename().string());
    std::string path;
    const ImportOptions options = test::import_options_of(folder, path);
    try {
      const ir::Schedule schedule = import_model(path, options);
      EXPECT_EQ(test::text_and_verifier_complaints(schedule), "");
      const auto sets = test::read_data_sets(folder, options.ranks);
      EXPECT_FALSE(sets.empty());
      for (const std::vector<test::DataSet>& set : sets) {
        std::vector<std::vector<ir::Tensor>> inputs;
        for (const test::DataSet& rank : set) inputs.push_back(rank.inputs);
        const ir::InterpreterResult result = ir::run(schedule, inputs);
        for (std::size_t r = 0; r < set.size(); ++r) {
          for (std::size_t k = 0; k < set[r].outputs.size(); ++k) {
            const bool half = ir::size_of(set[r].outputs[k].dtype) == 2;
            EXPECT_EQ(test::difference(result.outputs[r][k], set[r].outputs[k], half ? 1e-2 : rtol,
                                       half ? 1e-3 : atol),
                      "")
                << "rank " << r << ", output " << k;
          }
        }
      }
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

void run_all(const std::string& part, double rtol, double atol) {
  const fs::path root = paths::test_models(part);
  if (!fs::exists(root)) GTEST_SKIP() << "no models in " << root << "; ctest makes them";
  run_cases(root, rtol, atol);
}

TEST(TestModels, OperatorsEqualOnnxRuntime) { run_all("ops", 1e-5, 1e-5); }
TEST(TestModels, CollectivesEqualTheReference) { run_all("collectives", 1e-5, 1e-6); }
TEST(TestModels, TransformersEqualOnnxRuntimeWholeAndSplit) { run_all("transformers", 1e-4, 1e-5); }
TEST(TestModels, ArchitecturesEqualOnnxRuntime) { run_all("architectures", 1e-4, 1e-5); }

// Written by tests/models/export_torch.py, those of several ranks by examples/from_pytorch.
TEST(ExportedModels, EqualOnnxRuntimeOrPyTorch) {
  run_cases(paths::source("tests/corpus/exported"), 1e-4, 1e-5);
}

}  // namespace
}  // namespace braid::frontend
