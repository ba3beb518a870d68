// ONNX's own node tests (written by tests/models/make_onnx_cases.py), run by the interpreter. None may give a wrong
// result; docs/onnx-support.md, which a test of its own holds against a run, lists what passes and what is refused. Inputs on which sizes depend arrive as graph inputs: each case is
// also run with these bound to their values.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "frontend/errors.h"
#include "frontend/import.h"
#include "ir/interpreter.h"
#include "tests/frontend/models.h"
#include "tests/support/onnx_cases.h"

namespace braid::frontend {
namespace {

namespace fs = std::filesystem;

enum class Outcome { passed, bound, refused, failed };

struct Report {
  Outcome outcome;
  std::string text;
};

// Random numbers of seeded operators: ONNX does not fix them, and its files hold those of one implementation.
bool has_free_values(const onnx::ModelProto& model) {
  return std::any_of(model.graph().node().begin(), model.graph().node().end(),
                     [](const onnx::NodeProto& node) {
                       return node.op_type() == "Bernoulli" || node.op_type() == "RandomUniformLike";
                     });
}

// Every size of an input becomes the one that the data have.
void bind_dims(onnx::ModelProto& model, const std::vector<ir::Tensor>& inputs) {
  for (int k = 0; k < model.graph().input_size(); ++k) {
    onnx::TypeProto& type = *model.mutable_graph()->mutable_input(k)->mutable_type();
    if (!type.has_tensor_type()) continue;
    onnx::TensorShapeProto& shape = *type.mutable_tensor_type()->mutable_shape();
    shape.clear_dim();
    for (std::int64_t s : inputs[static_cast<std::size_t>(k)].sizes) shape.add_dim()->set_dim_value(s);
  }
}

// ONNX's runner allows 1e-3, and for bf16 two units in the last place; so do we for f16, where 1e-3 is one.
double relative_tolerance(ir::DType dtype) {
  return dtype == ir::DType::bf16 ? 0x1p-6 : dtype == ir::DType::f16 ? 0x1p-9 : 1e-3;
}

// What one rounding of the largest element leaves where a sum should cancel to zero, but at least 1e-7.
double noise(const ir::Tensor& expected) {
  double largest = 0;
  if (expected.dtype == ir::DType::f32) {
    for (const float x : expected.values<float>()) {
      if (std::isfinite(x)) largest = std::max(largest, std::abs(static_cast<double>(x)));
    }
  }
  return std::max(1e-7, largest * std::numeric_limits<float>::epsilon());
}

Report run_case(const fs::path& folder) {
  onnx::ModelProto model;
  if (!model.ParseFromString(test::read_file(folder / "model.onnx"))) return {Outcome::failed, "no model"};
  const std::vector<std::vector<test::DataSet>> sets = test::read_data_sets(folder, 1);
  if (sets.empty()) return {Outcome::refused, "data of other types"};
  std::vector<ir::Tensor> inputs = sets[0][0].inputs;
  if (static_cast<int>(inputs.size()) != model.graph().input_size())
    return {Outcome::refused, "optional inputs"};
  bind_dims(model, inputs);
  ImportOptions options;
  for (std::size_t k = 0; k < inputs.size(); ++k)
    options.bindable.emplace(model.graph().input(static_cast<int>(k)).name(), inputs[k]);
  try {
    const ir::Schedule schedule = import_proto(model, options);
    std::vector<std::vector<ir::Tensor>> left(1);
    for (const ir::GraphInput& input : schedule.graph.inputs)
      left[0].push_back(options.bindable.at(input.name));
    const ir::InterpreterResult result = ir::run(schedule, left);
    if (has_free_values(model)) return {Outcome::refused, "random numbers"};
    const std::vector<ir::Tensor>& expected = sets[0][0].outputs;
    for (std::size_t k = 0; k < expected.size(); ++k) {
      const double relative = relative_tolerance(expected[k].dtype);
      const std::string d = test::difference(result.outputs[0][k], expected[k], relative, noise(expected[k]));
      if (!d.empty()) return {Outcome::failed, fmt::format("output {}: {}", k, d)};
    }
    return {left[0].size() < inputs.size() ? Outcome::bound : Outcome::passed, ""};
  } catch (const ir::UserError& error) {
    const bool unsupported = error.code() == kUnsupportedOperators || error.code() == kUnsupportedType ||
                             error.code() == kUnsupportedForm || error.code() == kDataDependentSize;
    return {unsupported ? Outcome::refused : Outcome::failed, error.what()};
  } catch (const std::exception& error) {
    return {Outcome::failed, error.what()};
  }
}

TEST(OnnxNodeSuite, NoCaseIsWrong) {
  const fs::path root = fs::path(BRAID_ONNX_CASES) / "node";
  if (!fs::exists(root.parent_path() / "fingerprint"))
    GTEST_SKIP() << "tests/models/make_onnx_cases.py has not written " << root;
  std::vector<fs::path> cases;
  for (const auto& entry : fs::directory_iterator(root)) cases.push_back(entry.path());
  std::sort(cases.begin(), cases.end());
  std::map<Outcome, int> count;
  const bool verbose = std::getenv("BRAID_NODE_SUITE_VERBOSE") != nullptr;
  for (const fs::path& path : cases) {
    const std::string name = path.filename();
    const Report report = run_case(path);
    ++count[report.outcome];
    if (report.outcome == Outcome::failed) ADD_FAILURE() << name << ": " << report.text;
    if (verbose && report.outcome == Outcome::refused) fmt::print("refused {}: {}\n", name, report.text);
  }
  fmt::print(
      "ONNX node suite: {} of {} cases pass ({} of them with inputs bound as constants), {} are refused, {} "
      "failed\n",
      count[Outcome::passed] + count[Outcome::bound], cases.size(), count[Outcome::bound],
      count[Outcome::refused], count[Outcome::failed]);
}

}  // namespace
}  // namespace braid::frontend
