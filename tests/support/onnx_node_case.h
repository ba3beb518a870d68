// ONNX's node cases (tests/models/make_onnx_cases.py), imported with the inputs that decide sizes bound to
// their values, and random cases of operators.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "frontend/import.h"
#include "frontend/signature.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "tests/support/onnx_cases.h"

namespace braid::test {

struct NodeCase {
  std::string refused;  // why; empty if the case was imported
  ir::Schedule schedule;
  std::vector<ir::Tensor> inputs;  // those that are not bound
  std::vector<ir::Tensor> expected;
  bool bound = false;  // there are others
};

// Every dimension with a name is as large as in the data.
inline void add_dims(frontend::ImportOptions& options, const frontend::SignatureValue& value,
                     const ir::Tensor& tensor) {
  for (std::size_t d = 0; d < value.dims.size(); ++d) {
    const std::string& name = value.dims[d];
    if (name.find_first_not_of("0123456789") != std::string::npos)
      options.dims[name] = {tensor.sizes[d], tensor.sizes[d]};
  }
}

// Errors other than those of unsupported features are thrown.
inline NodeCase read_node_case(const fs::path& folder) {
  NodeCase result;
  const std::vector<std::vector<DataSet>> sets = read_data_sets(folder, 1);
  const std::string model = (folder / "model.onnx").string();
  const frontend::Signature signature = frontend::read_signature(model);
  if (sets.empty() || sets[0][0].inputs.size() != signature.inputs.size()) {
    result.refused = "data that are no tensors of the IR's types";
    return result;
  }
  frontend::ImportOptions options;
  for (std::size_t k = 0; k < signature.inputs.size(); ++k) {
    options.bindable.emplace(signature.inputs[k].name, sets[0][0].inputs[k]);
    add_dims(options, signature.inputs[k], sets[0][0].inputs[k]);
  }
  try {
    result.schedule = frontend::import_model(model, options);
  } catch (const ir::UserError& error) {
    const int code = error.code();
    if (code != errors::kUnsupportedOperators && code != errors::kUnsupportedType &&
        code != errors::kUnsupportedForm && code != errors::kDataDependentSize)
      throw;
    result.refused = error.what();
    return result;
  }
  // ONNX does not fix which numbers are drawn; the files hold those of one implementation.
  const std::string name = folder.filename();
  if (name.starts_with("test_bernoulli") || name.starts_with("test_randomuniformlike")) {
    result.refused = "random numbers";
    return result;
  }
  for (const ir::GraphInput& input : result.schedule.graph.inputs)
    result.inputs.push_back(options.bindable.at(input.name));
  result.expected = sets[0][0].outputs;
  result.bound = result.inputs.size() < options.bindable.size();
  return result;
}

// One of the random cases of tests/frontend/reference/, which are never refused.
inline NodeCase read_reference_case(const fs::path& folder) {
  NodeCase result;
  std::string model;
  const frontend::ImportOptions options = import_options_of(folder, model);
  result.schedule = frontend::import_model(model, options);
  const std::vector<std::vector<DataSet>> sets = read_data_sets(folder, 1);
  result.inputs = sets.at(0)[0].inputs;
  result.expected = sets[0][0].outputs;
  return result;
}

// Returns the error that one rounding of the largest element leaves where a sum should cancel to zero, as in
// a Fourier transform.
inline double noise(const ir::Tensor& expected) {
  double largest = 0;
  if (expected.dtype == ir::DType::f32) {
    for (const float x : expected.values<float>()) {
      if (std::isfinite(x)) largest = std::max(largest, std::abs(static_cast<double>(x)));
    }
  }
  return std::max(1e-7, largest * std::numeric_limits<float>::epsilon());
}

// Returns "" if the outputs are those of the case. ONNX's runner allows 1e-3, and for bf16 two units in the
// last place; so do we for f16, where 1e-3 is one.
inline std::string difference(const std::vector<ir::Tensor>& outputs, const NodeCase& node_case) {
  if (outputs.size() != node_case.expected.size())
    return fmt::format("{} outputs instead of {}", outputs.size(), node_case.expected.size());
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const ir::DType dtype = node_case.expected[k].dtype;
    const double relative = dtype == ir::DType::bf16 ? 0x1p-6 : dtype == ir::DType::f16 ? 0x1p-9 : 1e-3;
    const std::string found =
        difference(outputs[k], node_case.expected[k], relative, noise(node_case.expected[k]));
    if (!found.empty()) return fmt::format("output {}: {}", k, found);
  }
  return {};
}

// The folders, sorted; empty if they have not been written.
inline std::vector<fs::path> node_cases(const fs::path& root) {
  return fs::exists(root / "fingerprint") ? sorted_entries(root / "node") : std::vector<fs::path>();
}

// So many random cases of each operator.
inline std::vector<fs::path> reference_cases(const fs::path& root, std::size_t of_each) {
  std::vector<fs::path> paths;
  for (const fs::path& op : sorted_entries(root)) {
    const std::vector<fs::path> cases = sorted_entries(op);
    const std::size_t count = std::min(of_each, cases.size());
    paths.insert(paths.end(), cases.begin(), cases.begin() + static_cast<std::ptrdiff_t>(count));
  }
  return paths;
}

inline std::vector<fs::path> every(std::size_t step, const std::vector<fs::path>& paths) {
  std::vector<fs::path> sample;
  for (std::size_t k = 0; k < paths.size(); k += step) sample.push_back(paths[k]);
  return sample;
}

}  // namespace braid::test
