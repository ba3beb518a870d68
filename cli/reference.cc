#include "cli/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/errors.h"
#include "cli/npy.h"
#include "cli/npz.h"
#include "cli/output_names.h"
#include "codegen/temp_dir.h"
#include "codegen/toolchain.h"
#include "frontend/errors.h"
#include "ir/error.h"

namespace braid::cli {
namespace {

// Arguments: model, folder, names of the inputs, --, names of the outputs. Arrays lie in the folder.
constexpr const char* kScript = R"(
import sys
import numpy
import onnxruntime
model, folder, names = sys.argv[1], sys.argv[2], sys.argv[3:]
split = names.index("--")
feed = {name: numpy.load(f"{folder}/input{k}.npy") for k, name in enumerate(names[:split])}
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
for k, value in enumerate(session.run(names[split + 1:], feed)):
    numpy.save(f"{folder}/output{k}.npy", numpy.asarray(value, order="C"))
)";

std::string last_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  const std::size_t end = text.rfind('\n');
  return end == std::string::npos ? text : text.substr(end + 1);
}

}  // namespace

Outputs onnxruntime_outputs(const std::string& model, const ProgramInterface& table,
                            const std::vector<std::vector<ir::Tensor>>& inputs) {
  if (table.ranks != 1 || !model.ends_with(".onnx")) {
    ir::user_error(kBadOption, {.file = model}, "--reference onnxruntime is for ONNX models on one rank",
                   "store the results of another program, and give --reference DIR");
  }
  const codegen::TempDir temporary;
  const std::string python = codegen::environment("BRAID_PYTHON", "python3");
  std::string command = codegen::shell_word(python) + " -c " + codegen::shell_word(kScript) + " " +
                        codegen::shell_word(model) + " " + codegen::shell_word(temporary.path());
  for (std::size_t k = 0; k < table.inputs.size(); ++k) {
    write_npy(fmt::format("{}/input{}.npy", temporary.path(), k), inputs[0][k]);
    command += " " + codegen::shell_word(table.inputs[k].name);
  }
  command += " --";
  for (const auto& output : table.outputs) command += " " + codegen::shell_word(output.name);
  const codegen::CommandResult result = codegen::run_command(command + " 2>&1");
  if (result.status != 0) {
    ir::user_error(
        kNoReference, {.file = model},
        fmt::format("{} cannot run the model with onnxruntime: {}", python, last_line(result.output)),
        "install it with: python3 -m pip install onnxruntime; $BRAID_PYTHON names another Python");
  }
  Outputs outputs(1);
  for (std::size_t k = 0; k < table.outputs.size(); ++k)
    outputs[0].push_back(read_npy(fmt::format("{}/output{}.npy", temporary.path(), k)));
  return outputs;
}

Outputs stored_outputs(const std::string& path, const ProgramInterface& table) {
  const bool archive = path.ends_with(".npz");
  const NamedTensors stored = archive ? read_npz(path) : NamedTensors{};
  Outputs outputs;
  for (int r = 0; r < table.ranks; ++r) {
    std::vector<ir::Tensor>& rank = outputs.emplace_back();
    for (const std::string& name : output_names(table)) {
      const std::string key = (table.ranks > 1 ? fmt::format("rank{}/", r) : "") + name;
      if (!archive) {
        rank.push_back(read_npy((std::filesystem::path(path) / (key + ".npy")).string()));
        continue;
      }
      const auto found =
          std::find_if(stored.begin(), stored.end(), [&](const auto& entry) { return entry.first == key; });
      if (found == stored.end())
        ir::user_error(kBadNpy, {.file = path}, fmt::format("it has no array '{}'", key),
                       "braid run -o writes it");
      rank.push_back(found->second);
    }
  }
  return outputs;
}

}  // namespace braid::cli
