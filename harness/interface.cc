#include "harness/interface.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "codegen/manifest.h"
#include "ir/error.h"

namespace braid::harness {
namespace {

// Both tables have these members under the same names.
template <class Table>
ProgramInterface read_table(const Table& table) {
  ProgramInterface program;
  program.ranks = table.ranks;
  for (int d = 0; d < table.dim_count; ++d)
    program.dims.push_back({table.dims[d].name, table.dims[d].min, table.dims[d].max});
  for (int k = 0; k < table.input_count; ++k) {
    const BraidTensorInfo& info = table.inputs[k];
    InputSpec spec{info.name, to_ir(info.dtype), {}, info.max_bytes};
    for (int d = 0; d < info.rank; ++d) {
      const BraidSize& size = info.sizes[d];
      spec.sizes.push_back({size.constant, size.dim >= 0 ? table.dims[size.dim].name : ""});
    }
    program.inputs.push_back(std::move(spec));
  }
  for (int k = 0; k < table.output_count; ++k) {
    const BraidTensorInfo& info = table.outputs[k];
    program.outputs.push_back({info.name, info.rank, info.max_bytes});
  }
  return program;
}

// Whether the shape of a manifest's part is that of the library's table.
bool fits(const InputSpec& spec, const nlohmann::json& shape) {
  if (shape.size() != spec.sizes.size()) return false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::int64_t constant = spec.sizes[d].constant;
    if (shape[d].is_number_integer() != (constant >= 0)) return false;
    if (constant >= 0 && shape[d].get<std::int64_t>() != constant) return false;
  }
  return true;
}

// Adds the facts of the manifest that the program's table does not have.
ProgramInterface with_manifest(ProgramInterface table, const std::string& dir) {
  std::ifstream file(codegen::manifest_path(dir));
  const nlohmann::json manifest = nlohmann::json::parse(file, nullptr, false);
  const nlohmann::json none = nlohmann::json::array();
  const auto entries = [&](const char* what) -> const nlohmann::json& {
    const auto found = manifest.find(what);
    return found != manifest.end() && found->is_array() ? *found : none;
  };
  const nlohmann::json &inputs = entries("inputs"), &outputs = entries("outputs");
  for (std::size_t k = 0; k < std::min(inputs.size(), table.inputs.size()); ++k) {
    InputSpec& spec = table.inputs[k];
    spec.part = TensorPart::of(inputs[k], manifest, table.ranks);
    if (spec.part && !fits(spec, inputs[k]["shape"])) spec.part.reset();
    const auto below = inputs[k].find("index_below");
    if (below == inputs[k].end()) continue;
    spec.index_below = below->is_string() ? below->get<std::string>() : below->dump();
  }
  for (std::size_t k = 0; k < std::min(outputs.size(), table.outputs.size()); ++k) {
    ProgramInterface::Output& output = table.outputs[k];
    output.part = TensorPart::of(outputs[k], manifest, table.ranks);
    if (output.part && output.part->whole().size() != static_cast<std::size_t>(output.rank))
      output.part.reset();
  }
  return table;
}

}  // namespace

ProgramInterface interface_of(const BraidProgram& table, const std::string& dir) {
  return with_manifest(read_table(table), dir);
}

ProgramInterface interface_of(const BraidCudaProgram& table, const std::string& dir) {
  return with_manifest(read_table(table), dir);
}

std::map<std::string, std::int64_t> dim_values(const ProgramInterface& program,
                                               const std::map<std::string, ir::Bounds>& given) {
  std::map<std::string, std::int64_t> values;
  for (const ProgramInterface::Dim& d : program.dims) values[d.name] = d.max;
  for (const auto& [name, bounds] : given) {
    if (bounds.min == bounds.max && values.contains(name)) values[name] = bounds.min;
  }
  return values;
}

ir::DType to_ir(rt::DType dtype) {
  if (const std::optional<ir::DType> found = ir::dtype_from_string(rt::to_string(dtype))) return *found;
  throw ir::InternalError("unknown element type in a program's table");
}

rt::DType to_runtime(ir::DType dtype) {
  for (int d = 0; d < rt::kDTypeCount; ++d) {
    if (to_ir(static_cast<rt::DType>(d)) == dtype) return static_cast<rt::DType>(d);
  }
  throw ir::InternalError("programs do not have this element type");
}

std::vector<std::string> output_names(const ProgramInterface& program) {
  std::vector<std::string> out;
  for (const auto& output : program.outputs) {
    std::string name = output.name;
    for (char& c : name) {
      if (c == '/' || c == '\0') c = '_';
    }
    const auto taken = [&](const std::string& n) {
      return std::find(out.begin(), out.end(), n) != out.end();
    };
    std::string file = name;
    for (int k = 2; taken(file); ++k) file = fmt::format("{}_{}", name, k);
    out.push_back(std::move(file));
  }
  return out;
}

}  // namespace braid::harness
