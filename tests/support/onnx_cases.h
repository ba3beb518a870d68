// Test cases in the layout of ONNX's backend tests: model.onnx (or one file per rank) and test_data_set_N
// with input_i.pb and output_i.pb, for several ranks below rank{r}/.
#pragma once

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "frontend/external_data.h"
#include "frontend/import.h"
#include "frontend/tensor.h"
#include "ir/tensor.h"

namespace braid::test {

namespace fs = std::filesystem;

inline std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder)) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

inline std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// nullopt where the file holds something else than a tensor of a type that the IR has.
inline std::optional<ir::Tensor> read_tensor(const fs::path& path) {
  onnx::TensorProto proto;
  if (!proto.ParseFromString(read_file(path)) || !frontend::dtype_of_onnx(proto.data_type()))
    return std::nullopt;
  frontend::FileMap files(path);
  try {
    const frontend::Tensor tensor = frontend::take_tensor(proto, files, {.file = path.string()});
    const auto bytes = tensor.data.of_rank(0);
    return ir::Tensor{byte_type(tensor.dtype), tensor.sizes, {bytes.begin(), bytes.end()}};
  } catch (const ir::UserError&) {  // a sequence or an optional value that happens to parse as a tensor
    return std::nullopt;
  }
}

// The model of a case, and what it is imported with: bounds of dims.json, the number of ranks.
frontend::ImportOptions import_options_of(const fs::path& folder, std::string& model);

struct DataSet {
  std::vector<ir::Tensor> inputs, outputs;
};

// input_0.pb, input_1.pb, ... and output_0.pb, ...; nullopt as in read_tensor.
inline std::optional<DataSet> read_data_set(const fs::path& folder) {
  DataSet set;
  for (auto [kind, list] : {std::pair("input", &set.inputs), std::pair("output", &set.outputs)}) {
    for (int k = 0;; ++k) {
      const fs::path path = folder / fmt::format("{}_{}.pb", kind, k);
      if (!fs::exists(path)) break;
      std::optional<ir::Tensor> tensor = read_tensor(path);
      if (!tensor) return std::nullopt;
      list->push_back(std::move(*tensor));
    }
  }
  return set;
}

// All sets of a case, by rank where `ranks` > 1.
inline std::vector<std::vector<DataSet>> read_data_sets(const fs::path& folder, int ranks) {
  std::vector<std::vector<DataSet>> sets;
  for (int k = 0; fs::exists(folder / fmt::format("test_data_set_{}", k)); ++k) {
    const fs::path set = folder / fmt::format("test_data_set_{}", k);
    std::vector<DataSet> per_rank;
    for (int r = 0; r < ranks; ++r) {
      const fs::path own = set / fmt::format("rank{}", r);
      std::optional<DataSet> data = read_data_set(fs::exists(own) ? own : set);
      if (!data) return {};
      per_rank.push_back(std::move(*data));
    }
    sets.push_back(std::move(per_rank));
  }
  return sets;
}

inline double element(const ir::Tensor& t, std::int64_t k) {
  frontend::Tensor view{t.dtype, t.sizes, {}};
  view.data.per_rank = {std::span(t.bytes)};
  return is_float(t.dtype) ? frontend::float_at(view, k) : static_cast<double>(frontend::integer_at(view, k));
}

// "" where the tensors agree: same type and sizes, |actual - expected| <= atol + rtol * |expected|, integers
// exactly.
inline std::string difference(const ir::Tensor& actual, const ir::Tensor& expected, double rtol,
                              double atol) {
  if (actual.dtype != expected.dtype)
    return fmt::format("type {} instead of {}", to_string(actual.dtype), to_string(expected.dtype));
  if (actual.sizes != expected.sizes)
    return fmt::format("sizes [{}] instead of [{}]", fmt::join(actual.sizes, ","),
                       fmt::join(expected.sizes, ","));
  if (!is_float(actual.dtype)) {
    for (std::int64_t k = 0; k < actual.numel(); ++k) {
      if (element(actual, k) != element(expected, k))
        return fmt::format("element {} is {} instead of {}", k, element(actual, k), element(expected, k));
    }
    return {};
  }
  for (std::int64_t k = 0; k < actual.numel(); ++k) {
    const double a = element(actual, k), e = element(expected, k);
    if (a == e || (std::isnan(a) && std::isnan(e))) continue;
    if (!(std::abs(a - e) <= atol + rtol * std::abs(e)))
      return fmt::format("element {} is {} instead of {}", k, a, e);
  }
  return {};
}

// Compares with the cases of tests/frontend/reference/. Their values are rounded once to the type, and a few
// roundings may lie between them and ours. Returns "" if nothing is wrong.
inline std::string reference_difference(const std::vector<ir::Tensor>& outputs,
                                        const std::vector<ir::Tensor>& expected) {
  if (outputs.size() != expected.size())
    return fmt::format("{} outputs instead of {}", outputs.size(), expected.size());
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const ir::DType dtype = expected[k].dtype;
    const double tolerance = dtype == ir::DType::f64    ? 1e-9
                             : dtype == ir::DType::f16  ? 4e-3
                             : dtype == ir::DType::bf16 ? 3e-2
                                                        : 2e-5;
    const std::string found = difference(outputs[k], expected[k], tolerance, tolerance);
    if (!found.empty()) return fmt::format("output {}: {}", k, found);
  }
  return {};
}

}  // namespace braid::test
