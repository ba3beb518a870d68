// ONNX's own node tests (onnx/backend/test/data/node), run by the interpreter. Inputs that decide sizes or
// axes arrive there as graph inputs; where the frontend says that a size depends on data, integer and scalar
// inputs are made constants of the model and the case is counted as "bound".
#include <gtest/gtest.h>

#include <map>

#include "frontend/errors.h"
#include "frontend/import.h"
#include "ir/interpreter.h"
#include "tests/frontend/models.h"
#include "tests/support/onnx_cases.h"

namespace braid::frontend {
namespace {

namespace fs = std::filesystem;

enum class Outcome { passed, bound, skipped, failed };

struct Report {
  Outcome outcome;
  std::string text;
};

// A later change must not lose cases without anybody noticing: raise this with every operator that is added.
constexpr int kPassing = 1212;

// Random numbers of seeded operators: ONNX does not fix them, and its files hold those of one implementation.
bool has_free_values(const onnx::ModelProto& model) {
  return std::any_of(model.graph().node().begin(), model.graph().node().end(),
                     [](const onnx::NodeProto& node) {
                       return node.op_type() == "Bernoulli" || node.op_type() == "RandomUniformLike";
                     });
}

// Turns inputs that may decide shapes into initializers; returns the inputs that are left.
std::vector<ir::Tensor> bind_inputs(onnx::ModelProto& model, const std::vector<ir::Tensor>& inputs) {
  onnx::GraphProto& graph = *model.mutable_graph();
  google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> left;
  std::vector<ir::Tensor> rest;
  for (int k = 0; k < graph.input_size(); ++k) {
    const ir::Tensor& tensor = inputs[static_cast<std::size_t>(k)];
    if (is_float(tensor.dtype) && tensor.numel() != 1) {
      *left.Add() = graph.input(k);
      rest.push_back(tensor);
      continue;
    }
    onnx::TensorProto& proto = *graph.add_initializer();
    proto.set_name(graph.input(k).name());
    proto.set_data_type(onnx_type_of(tensor.dtype));
    for (std::int64_t s : tensor.sizes) proto.add_dims(s);
    proto.set_raw_data(tensor.bytes.data(), tensor.bytes.size());
  }
  graph.mutable_input()->Swap(&left);
  return rest;
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

Report run_case(const fs::path& folder) {
  onnx::ModelProto model;
  if (!model.ParseFromString(test::read_file(folder / "model.onnx"))) return {Outcome::failed, "no model"};
  const std::vector<std::vector<test::DataSet>> sets = test::read_data_sets(folder, 1);
  if (sets.empty()) return {Outcome::skipped, "data of other types"};
  std::vector<ir::Tensor> inputs = sets[0][0].inputs;
  if (static_cast<int>(inputs.size()) != model.graph().input_size())
    return {Outcome::skipped, "optional inputs"};
  bind_dims(model, inputs);
  bool bound = false;
  for (;;) {
    try {
      const ir::Schedule schedule = import_proto(model);
      const std::vector<std::vector<ir::Tensor>> per_rank = {inputs};
      const ir::InterpreterResult result = ir::run(schedule, per_rank);
      const std::vector<ir::Tensor>& expected = sets[0][0].outputs;
      if (has_free_values(model)) return {Outcome::skipped, "random numbers"};
      for (std::size_t k = 0; k < expected.size(); ++k) {
        const std::string d = test::difference(result.outputs[0][k], expected[k], 1e-3, 1e-7);
        if (!d.empty()) return {Outcome::failed, fmt::format("output {}: {}", k, d)};
      }
      return {bound ? Outcome::bound : Outcome::passed, ""};
    } catch (const ir::UserError& error) {
      if (!bound && error.code() == kDataDependentSize) {
        bound = true;
        inputs = bind_inputs(model, inputs);
        continue;
      }
      const bool unsupported = error.code() == kUnsupportedOperators || error.code() == kUnsupportedType ||
                               error.code() == kUnsupportedForm;
      return {unsupported ? Outcome::skipped : Outcome::failed, error.what()};
    } catch (const std::exception& error) {
      return {Outcome::failed, error.what()};
    }
  }
}

TEST(OnnxNodeSuite, SupportedOperatorsPass) {
  const fs::path root = fs::path(BRAID_ONNX_DIR) / "onnx/backend/test/data/node";
  if (!fs::exists(root)) GTEST_SKIP() << "no test data in " << root;
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
    if (verbose && report.outcome == Outcome::skipped) fmt::print("skipped {}: {}\n", name, report.text);
  }
  fmt::print(
      "ONNX node suite: {} of {} cases pass ({} of them with integer inputs bound as constants), {} are not "
      "supported, {} failed\n",
      count[Outcome::passed] + count[Outcome::bound], cases.size(), count[Outcome::bound],
      count[Outcome::skipped], count[Outcome::failed]);
  EXPECT_GE(count[Outcome::passed] + count[Outcome::bound], kPassing);
}

}  // namespace
}  // namespace braid::frontend
