// braid run: runs a model or a compiled program on its ranks, with given or random inputs.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/given_inputs.h"
#include "cli/model_options.h"
#include "cli/open_model.h"
#include "cli/report.h"
#include "cli/run_options.h"
#include "cli/tensor_text.h"
#include "codegen/output_files.h"
#include "codegen/temp_dir.h"
#include "explain/measured_timeline_json.h"
#include "harness/interface.h"
#include "harness/launched.h"
#include "harness/npy.h"
#include "harness/npz.h"
#include "harness/profile.h"
#include "harness/program.h"

namespace braid::cli {
namespace {

struct RunOptions {
  ModelOptions model;
  harness::InputOptions inputs;
  harness::ExecuteOptions execute;
  std::string output;
  std::string trace, costs;
  bool print = false;
};

bool is_archive(const std::string& output) { return output.ends_with(".npz"); }

// Ranks of a launcher write an archive each.
std::string path_of_launched_rank(std::string path, const std::vector<harness::RankResult>& results) {
  if (harness::launched()) path.insert(path.size() - 4, fmt::format(".rank{}", results[0].rank));
  return path;
}

std::string shape_text(const ir::Tensor& t) {
  return fmt::format("{}[{}]", to_string(t.dtype), fmt::join(t.sizes, ", "));
}

// Writes one archive for all ranks, or folders of .npy files. In the archive of several ranks, arrays are
// named "rank<r>/<name>" as --input takes them.
void write_outputs(const RunOptions& o, const harness::ProgramInterface& table,
                   const std::vector<harness::RankResult>& results) {
  const std::vector<std::string> names = harness::output_names(table);
  harness::NamedTensors arrays;
  for (const harness::RankResult& result : results) {
    const std::string rank = table.ranks > 1 ? fmt::format("rank{}/", result.rank) : "";
    for (std::size_t k = 0; k < names.size(); ++k) arrays.emplace_back(rank + names[k], result.outputs[k]);
  }
  if (is_archive(o.output)) return harness::write_npz(path_of_launched_rank(o.output, results), arrays);
  codegen::OutputFiles files(o.output);
  for (const auto& [name, tensor] : arrays) files.write(name + ".npy", harness::npy_content(tensor));
  files.publish();
}

void write_timeline(const RunOptions& o, const explain::MeasuredTimeline& timeline) {
  if (!o.trace.empty()) codegen::write_file(o.trace, explain::to_json(timeline));
  if (!o.costs.empty())
    codegen::write_file(o.costs, analysis::write_cost_file(explain::measured_costs(timeline)));
}

// Defaults for recording: warm-up steps, after which all memory is mapped, and several steps to choose from.
constexpr int kRecordedWarmup = 3, kRecordedSteps = 15;

int run(RunOptions o, Report& report) {
  codegen::TempDir temporary;
  o.execute.record = !o.trace.empty() || !o.costs.empty();
  if (o.execute.record && o.execute.repeat == 0) {
    o.execute.warmup = std::max(o.execute.warmup, kRecordedWarmup);
    o.execute.repeat = kRecordedSteps;
  }
  o.execute.repeat = std::max(o.execute.repeat, 1);
  o.execute.link = link_pacing(o.model);
  const OpenedModel opened = open_model(o.model, o.execute.device, temporary, report);
  const harness::Program& program = *opened.program;
  const harness::ProgramInterface& table = program.interface();
  // Files of random results would be taken for real ones: they are wanted by name only.
  const harness::GivenInputs inputs = o.output.empty() ? make_inputs_or_draw(table, o.model, o.inputs, report)
                                                       : make_inputs(table, o.model, o.inputs, report);
  const std::vector<harness::RankResult> results = harness::execute(program, inputs.ranks, o.execute);
  if (o.execute.record) write_timeline(o, harness::measured_timeline(program, results, o.execute));
  if (!o.output.empty()) write_outputs(o, table, results);
  for (const harness::RankResult& result : results) {
    nlohmann::ordered_json& rank = report.json()["ranks"].emplace_back();
    rank["rank"] = result.rank;
    for (std::size_t k = 0; k < table.outputs.size(); ++k) {
      const ir::Tensor& tensor = result.outputs[k];
      nlohmann::ordered_json& json = rank["outputs"].emplace_back();
      json = {{"name", table.outputs[k].name}, {"dtype", to_string(tensor.dtype)}, {"shape", tensor.sizes}};
      if (o.print) json["values"] = values_json(tensor);
      if (result.rank != 0 && !o.print) continue;
      report.print("{}{}: {}{}\n", o.print && results.size() > 1 ? fmt::format("rank {} ", result.rank) : "",
                   table.outputs[k].name, shape_text(tensor), o.print ? " = " + values_text(tensor) : "");
    }
    if (o.execute.repeat > 1 && !result.step_ns.empty()) rank["median_ns"] = harness::median(result.step_ns);
  }
  if (o.execute.repeat > 1) {
    if (const std::string device = harness::device_line(program.files()); !device.empty())
      report.print("on {}\n", device);
    for (const harness::RankResult& result : results) {
      if (result.step_ns.empty()) continue;
      report.print("rank {}: median {:.3f} ms of {} steps\n", result.rank,
                   static_cast<double>(harness::median(result.step_ns)) / 1e6, o.execute.repeat);
    }
  }
  return 0;
}

}  // namespace

void add_run(Command app, Invocation& chosen) {
  auto o = std::make_shared<RunOptions>();
  const Command command = app.subcommand("run", "Run a model or a compiled program on its ranks");
  command.footer(
      "Example: braid run model.onnx --default-dim 8 --print\n"
      "         braid run out --random 1 --dim batch=1 --dim sequence=128\n"
      "         braid run model.onnx --input inputs.npz -o results.npz\n"
      "         braid run 'model.rank{rank}.onnx' --ranks 2 --input input_ids=ids.npy -o results\n"
      "         BRAID_ENGINE=mpi mpirun -n 4 braid run out --random 1");
  command.option("MODEL", o->model.model, "Folder of a compiled program, ONNX model or IR text").required();
  command
      .option("-o,--output", o->output,
              "Folder for the outputs as .npy (rank<r>/ each, if there are several), or FILE.npz for all")
      .check(not_empty());
  command.flag("--print", o->print, "Print the values of the outputs");
  o->execute.repeat = 0;  // not given
  add_steps(command, o->execute);
  command.option("--trace", o->trace, "Write the timeline of the median step as a Chrome trace (CPU)");
  command.option("--trace-costs", o->costs,
                 "Write the measured times of kernels as a cost file for --costs (CPU)");
  add_execution(command, o->execute);
  add_inputs(command, o->inputs);
  add_options(command, o->model);
  command.callback([o, &chosen] { chosen = [o](Report& report) { return run(*o, report); }; });
}

}  // namespace braid::cli
