#include "harness/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "codegen/temp_dir.h"
#include "codegen/toolchain.h"
#include "harness/interface.h"
#include "harness/npy.h"
#include "harness/npz.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::harness {
namespace {

// Arguments: model, folder, names of the inputs, --, of inputs whose arrays are cast to the input's type, --,
// of the outputs, --, of inner values that become outputs.
// A message that is appended to a model's file is merged into it, here graph { output { name } }. Arrays lie
// in the folder.
constexpr const char* kScript = R"(
import os
import sys
import numpy
import onnxruntime
def field(number, data):
    size, length = len(data), b""
    while size > 127:
        length, size = length + bytes([size % 128 + 128]), size // 128
    return bytes([number * 8 + 2]) + length + bytes([size]) + data
model, folder, names = sys.argv[1], sys.argv[2], sys.argv[3:]
lists = [[]]
for name in names:
    if name == "--":
        lists.append([])
    else:
        lists[-1].append(name)
inputs, fixed, outputs, inner = lists
feed = {name: numpy.load(f"{folder}/input{k}.npy") for k, name in enumerate(inputs + fixed)}
options = onnxruntime.SessionOptions()
if inner:
    place = "session.model_external_initializers_file_folder_path"
    options.add_session_config_entry(place, os.path.dirname(os.path.abspath(model)))
    with open(model, "rb") as file:
        model = file.read() + field(7, b"".join(field(12, field(1, name.encode())) for name in inner))
session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
for value in session.get_inputs():
    if value.name in fixed:
        kind = value.type[len("tensor("):-1]
        feed[value.name] = feed[value.name].astype({"float": "float32", "double": "float64"}.get(kind, kind))
for k, value in enumerate(session.run(outputs + inner, feed)):
    numpy.save(f"{folder}/output{k}.npy", numpy.asarray(value, order="C"))
)";

std::string last_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  const std::size_t end = text.rfind('\n');
  return end == std::string::npos ? text : text.substr(end + 1);
}

}  // namespace

RankTensors onnxruntime_outputs(const std::string& model, const frontend::FixedInputs& fixed,
                                const ProgramInterface& table, const RankTensors& inputs) {
  return onnxruntime_outputs(model, fixed, table, inputs, std::vector<bool>(table.outputs.size(), true),
                             table.outputs.size());
}

RankTensors onnxruntime_outputs(const std::string& model, const frontend::FixedInputs& fixed,
                                const ProgramInterface& table, const RankTensors& inputs,
                                const std::vector<bool>& wanted, std::size_t first_inner) {
  if (table.ranks != 1 || !model.ends_with(".onnx")) {
    ir::user_error(errors::kBadOption, {.file = model},
                   "--reference onnxruntime is for ONNX models on one rank",
                   "store the results of another program, and give --reference DIR");
  }
  const codegen::TempDir temporary;
  const std::string python = codegen::environment("BRAID_PYTHON", "python3");
  std::string command = codegen::shell_word(python) + " -c " + codegen::shell_word(kScript) + " " +
                        codegen::shell_word(model) + " " + codegen::shell_word(temporary.path());
  std::size_t given = 0;
  const auto give = [&](const std::string& name, const ir::Tensor& value) {
    write_npy(fmt::format("{}/input{}.npy", temporary.path(), given++), value);
    command += " " + codegen::shell_word(name);
  };
  for (std::size_t k = 0; k < table.inputs.size(); ++k) give(table.inputs[k].name, inputs[0][k]);
  command += " --";
  for (const auto& [name, input] : fixed) give(name, input.value);
  command += " --";
  for (std::size_t k = 0; k <= table.outputs.size(); ++k) {
    if (k == first_inner) command += " --";
    if (k < table.outputs.size() && wanted[k]) command += " " + codegen::shell_word(table.outputs[k].name);
  }
  const codegen::CommandResult result = codegen::run_command(command + " 2>&1");
  if (result.status != 0) {
    ir::user_error(
        errors::kNoReference, {.file = model},
        fmt::format("{} cannot run the model with onnxruntime: {}", python, last_line(result.output)),
        "install it with: python3 -m pip install onnxruntime; $BRAID_PYTHON names another Python");
  }
  RankTensors outputs(1);
  int file = 0;
  for (std::size_t k = 0; k < table.outputs.size(); ++k) {
    outputs[0].push_back(wanted[k] ? read_npy(fmt::format("{}/output{}.npy", temporary.path(), file++))
                                   : ir::Tensor{});
  }
  return outputs;
}

StoredOutputs stored_outputs(const std::string& path, const ProgramInterface& table) {
  namespace fs = std::filesystem;
  const bool archive = path.ends_with(".npz");
  const NamedTensors stored = archive ? read_npz(path) : NamedTensors{};
  bool of_ranks = false;
  for (int r = 0; r < table.ranks && table.ranks > 1; ++r) {
    const std::string prefix = fmt::format("rank{}", r);
    of_ranks =
        of_ranks ||
        (archive ? std::ranges::any_of(
                       stored, [&](const auto& entry) { return entry.first.starts_with(prefix + "/"); })
                 : fs::is_directory(fs::path(path) / prefix));
  }
  // Where nothing is, an error names what is missing.
  const bool found_any = archive || fs::is_directory(path);
  StoredOutputs result{{}, table.ranks > 1 && !of_ranks && found_any};
  for (int r = 0; r < table.ranks; ++r) {
    std::vector<ir::Tensor>& rank = result.outputs.emplace_back();
    for (const std::string& name : output_names(table)) {
      const std::string key = (table.ranks > 1 && !result.plain ? fmt::format("rank{}/", r) : "") + name;
      if (!archive) {
        rank.push_back(read_npy((fs::path(path) / (key + ".npy")).string()));
        continue;
      }
      const auto found =
          std::find_if(stored.begin(), stored.end(), [&](const auto& entry) { return entry.first == key; });
      if (found == stored.end())
        ir::user_error(errors::kBadNpy, {.file = path}, fmt::format("it has no array '{}'", key),
                       "braid run -o writes it");
      rank.push_back(found->second);
    }
  }
  return result;
}

}  // namespace braid::harness
