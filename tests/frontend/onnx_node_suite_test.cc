// ONNX's own node tests, run by the interpreter. None may give a wrong result. docs/onnx-support.md lists the
// cases that pass and those that are refused; a test of its own holds it against a run.
#include <gtest/gtest.h>

#include "ir/interpreter.h"
#include "tests/paths.h"
#include "tests/support/onnx_node_case.h"

namespace braid::frontend {
namespace {

TEST(OnnxNodeSuite, NoCaseIsWrong) {
  const std::vector<test::fs::path> cases = test::node_cases(paths::onnx_cases());
  if (cases.empty()) GTEST_SKIP() << "tests/models/make_onnx_cases.py has written no cases";
  int passed = 0, bound = 0, refused = 0;
  const bool verbose = std::getenv("BRAID_NODE_SUITE_VERBOSE") != nullptr;
  for (const test::fs::path& path : cases) {
    const std::string name = path.filename();
    try {
      const test::NodeCase node_case = test::read_node_case(path);
      if (!node_case.refused.empty()) {
        ++refused;
        if (verbose) fmt::print("refused {}: {}\n", name, node_case.refused);
        continue;
      }
      const std::vector<std::vector<ir::Tensor>> inputs = {node_case.inputs};
      const std::string wrong = test::difference(ir::run(node_case.schedule, inputs).outputs[0], node_case);
      EXPECT_EQ(wrong, "") << name;
      passed += wrong.empty();
      bound += wrong.empty() && node_case.bound;
    } catch (const std::exception& error) {
      ADD_FAILURE() << name << ": " << error.what();
    }
  }
  fmt::print(
      "ONNX node suite: {} of {} cases pass ({} of them with inputs bound as constants), {} are refused\n",
      passed, cases.size(), bound, refused);
}

}  // namespace
}  // namespace braid::frontend
