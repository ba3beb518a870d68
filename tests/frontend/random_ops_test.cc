// Random cases of single operators, written by tests/models/random_ops.py with their expected results, run by the
// interpreter. A sample in the fast tier, at least 200 of each operator in the deep one.
#include <gtest/gtest.h>

#include "frontend/import.h"
#include "ir/interpreter.h"
#include "tests/support/onnx_cases.h"

namespace braid::frontend {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
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

TEST(RandomOperators, EqualTheirDefinitions) {
  const fs::path root = fs::path(BRAID_TEST_MODELS) / "random_ops";
  if (!fs::exists(root)) GTEST_SKIP() << "no models in " << root << "; ctest makes them";
  int cases = 0;
  for (const fs::path& op : entries(root)) {
    for (const fs::path& folder : entries(op)) {
      SCOPED_TRACE(op.filename().string() + ", seed " + folder.filename().string());
      ++cases;
      try {
        const ir::Schedule schedule = import_model((folder / "model.onnx").string(), {});
        const auto sets = test::read_data_sets(folder, 1);
        ASSERT_EQ(sets.size(), 1u);
        const std::vector<std::vector<ir::Tensor>> inputs = {sets[0][0].inputs};
        const ir::Tensor& expected = sets[0][0].outputs.at(0);
        const double t = tolerance(expected.dtype);
        EXPECT_EQ(test::difference(ir::run(schedule, inputs).outputs[0][0], expected, t, t), "");
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
  fmt::print("{} random cases of operators\n", cases);
}

}  // namespace
}  // namespace braid::frontend
