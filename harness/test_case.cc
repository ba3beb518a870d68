#include "harness/test_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "frontend/signature.h"
#include "frontend/tensor_file.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/input_file.h"

namespace braid::harness {
namespace {

namespace fs = std::filesystem;

// Unlike std::filesystem's, an error of the path is ours.
bool there(const fs::path& path) {
  std::error_code error;
  const bool found = fs::exists(path, error);
  if (error)
    ir::user_error(errors::kFileNotReadable, {.file = path.string()},
                   fmt::format("cannot read the file: {}", error.message()), "check the path");
  return found;
}

[[noreturn]] void no_case(const std::string& path, const std::string& why) {
  ir::user_error(errors::kNoTestCase, {.file = path}, "this is not a test case: " + why,
                 "a case holds model.onnx and test_data_set_0/input_0.pb, output_0.pb");
}

// input_0.pb, input_1.pb, ... in order of their numbers.
std::vector<ir::Tensor> read_numbered(const fs::path& folder, const std::string& stem) {
  std::vector<ir::Tensor> tensors;
  for (int k = 0; there(folder / fmt::format("{}_{}.pb", stem, k)); ++k) {
    tensors.push_back(
        frontend::read_tensor_file((folder / fmt::format("{}_{}.pb", stem, k)).string()).tensor);
  }
  return tensors;
}

int count_ranks(const fs::path& folder) {
  int ranks = 0;
  while (there(folder / fmt::format("rank{}", ranks))) ++ranks;
  return ranks;
}

std::vector<fs::path> data_folders(const fs::path& dir) {
  std::vector<fs::path> folders;
  for (int k = 0; there(dir / fmt::format("test_data_set_{}", k)); ++k)
    folders.push_back(dir / fmt::format("test_data_set_{}", k));
  return folders;
}

std::map<std::string, ir::Bounds> read_dims(const fs::path& path) {
  const nlohmann::json json = nlohmann::json::parse(ir::read_text_file(path.string()), nullptr, false);
  if (!json.is_object()) no_case(path.string(), "its dims.json is not an object");
  std::map<std::string, ir::Bounds> dims;
  for (const auto& [name, value] : json.items()) {
    if (!value.is_array() || value.size() != 2 || !value[0].is_number_integer() ||
        !value[1].is_number_integer()) {
      no_case(path.string(), "dims.json must have one [MIN, MAX] per name");
    }
    dims[name] = {value[0].get<std::int64_t>(), value[1].get<std::int64_t>()};
  }
  return dims;
}

// Named dimensions span the sizes in the data sets.
std::map<std::string, ir::Bounds> dims_of_data(const TestCase& test,
                                               const std::vector<frontend::SignatureValue>& inputs) {
  std::map<std::string, ir::Bounds> dims;
  for (const TestData& data : test.data) {
    for (const std::vector<ir::Tensor>& tensors : data.inputs) {
      for (std::size_t k = 0; k < std::min(tensors.size(), inputs.size()); ++k) {
        for (std::size_t d = 0; d < std::min(tensors[k].sizes.size(), inputs[k].dims.size()); ++d) {
          const std::string& name = inputs[k].dims[d];
          if (name.empty() || name.find_first_not_of("0123456789") == std::string::npos) continue;
          const std::int64_t size = tensors[k].sizes[d];
          auto [it, fresh] = dims.try_emplace(name, ir::Bounds{size, size});
          it->second = {std::min(it->second.min, size), std::max(it->second.max, size)};
        }
      }
    }
  }
  return dims;
}

// Files of values that are not tensors hold other messages than TensorProto, but their bytes do not tell.
void require_tensors(const std::string& model, const char* what,
                     const std::vector<frontend::SignatureValue>& values) {
  for (const frontend::SignatureValue& value : values) {
    if (value.kind == "tensor" || value.kind.empty()) continue;
    ir::user_error(errors::kUnsupportedType, {.file = model},
                   fmt::format("{} '{}' is not a tensor but {} {}", what, value.name,
                               value.kind == "optional" ? "an" : "a", value.kind),
                   "inputs and outputs of a program must be tensors");
  }
}

}  // namespace

TestCase read_test_case(const std::string& dir) {
  TestCase test;
  test.dir = dir;
  const fs::path folder = dir;
  const std::vector<fs::path> sets = data_folders(folder);
  if (there(folder / "model.onnx")) {
    test.model = (folder / "model.onnx").string();
  } else if (there(folder / "model.rank0.onnx")) {
    test.model = (folder / "model.rank{rank}.onnx").string();
    while (there(folder / fmt::format("model.rank{}.onnx", test.ranks))) ++test.ranks;
  } else {
    no_case(dir, "it has no model.onnx or model.rank0.onnx");
  }
  if (sets.empty()) no_case(dir, "it has no test_data_set_0");
  const frontend::Signature signature = frontend::read_signature(test.model);
  require_tensors(test.model, "input", signature.inputs);
  require_tensors(test.model, "output", signature.outputs);
  for (const frontend::SignatureValue& input : signature.inputs) test.input_names.push_back(input.name);
  if (const int ranks = count_ranks(sets[0]); ranks > 0) test.ranks = ranks;
  for (const fs::path& set : sets) {
    TestData data{set.filename().string(), {}, {}};
    for (int r = 0; r < test.ranks; ++r) {
      const fs::path own = set / fmt::format("rank{}", r);
      const fs::path source = there(own) ? own : set;
      data.inputs.push_back(read_numbered(source, "input"));
      data.outputs.push_back(read_numbered(source, "output"));
      if (data.outputs.back().empty()) no_case(source.string(), "it has no output_0.pb");
    }
    test.data.push_back(std::move(data));
  }
  const fs::path dims = folder / "dims.json";
  test.dims = there(dims) ? read_dims(dims) : dims_of_data(test, signature.inputs);
  return test;
}

}  // namespace braid::harness
