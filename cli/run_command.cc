// braid run: runs a model or a compiled program on its ranks, with given or random inputs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "cli/execute.h"
#include "cli/model_options.h"
#include "cli/npy.h"
#include "cli/open_model.h"
#include "cli/write_file.h"
#include "codegen/temp_dir.h"
#include "explain/measured_timeline_json.h"

namespace braid::cli {
namespace {

struct Options {
  ModelOptions model;
  InputOptions inputs;
  ExecuteOptions execute;
  std::string output;
  std::string trace, costs;
};

std::string shape_text(const ir::Tensor& t) {
  return fmt::format("{}[{}]", to_string(t.dtype), fmt::join(t.sizes, ", "));
}

// A file for each output; if two names would become one, the later one gets a number.
std::vector<std::string> file_names(const ProgramInterface& table) {
  std::vector<std::string> out;
  for (const auto& output : table.outputs) {
    std::string name = output.name;
    for (char& c : name) {
      if (c == '/' || c == '\0') c = '_';
    }
    const auto taken = [&](const std::string& n) {
      return std::find(out.begin(), out.end(), n) != out.end();
    };
    std::string file = name + ".npy";
    for (int k = 2; taken(file); ++k) file = fmt::format("{}_{}.npy", name, k);
    out.push_back(std::move(file));
  }
  return out;
}

void write_timeline(const Options& o, const explain::MeasuredTimeline& timeline) {
  if (!o.trace.empty()) write_file(o.trace, explain::to_json(timeline));
  if (!o.costs.empty()) write_file(o.costs, analysis::write_cost_file(explain::measured_costs(timeline)));
}

// Defaults for recording: warm-up steps, after which all memory is mapped, and several steps to choose from.
constexpr int kRecordedWarmup = 3, kRecordedSteps = 15;

int run(Options o) {
  codegen::TempDir temporary;
  o.execute.record = !o.trace.empty() || !o.costs.empty();
  if (o.execute.record && o.execute.repeat == 0) {
    o.execute.warmup = std::max(o.execute.warmup, kRecordedWarmup);
    o.execute.repeat = kRecordedSteps;
  }
  o.execute.repeat = std::max(o.execute.repeat, 1);
  o.execute.link = link_pacing(o.model);
  const auto [program, table] = open_model(o.model, o.execute.device, temporary);
  const std::vector<std::vector<ir::Tensor>> inputs =
      make_inputs(table.inputs, table.ranks, dim_values(table, o.model.dim_bounds()), o.inputs);
  const std::vector<RankResult> results = execute(program, inputs, o.execute);
  if (o.execute.record) write_timeline(o, measured_timeline(program, results, o.execute));
  const std::vector<std::string> files = file_names(table);
  for (const RankResult& result : results) {
    for (std::size_t k = 0; k < table.outputs.size(); ++k) {
      const ir::Tensor& tensor = result.outputs[k];
      if (result.rank == 0) fmt::print("{}: {}\n", table.outputs[k].name, shape_text(tensor));
      if (o.output.empty()) continue;
      std::filesystem::path folder = o.output;
      if (table.ranks > 1) folder /= fmt::format("rank{}", result.rank);
      std::filesystem::create_directories(folder);
      write_npy((folder / files[k]).string(), tensor);
    }
  }
  if (o.execute.repeat > 1) {
    if (const std::string device = device_line(program); !device.empty()) fmt::print("on {}\n", device);
    for (const RankResult& result : results) {
      if (result.step_ns.empty()) continue;
      fmt::print("rank {}: median {:.3f} ms of {} steps\n", result.rank,
                 static_cast<double>(median(result.step_ns)) / 1e6, o.execute.repeat);
    }
  }
  return 0;
}

}  // namespace

void add_run(CLI::App& app, Invocation& chosen) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("run", "Run a model or a compiled program on its ranks");
  command->footer(
      "Example: braid run out --random 1 --dim batch=1 --dim sequence=128\n"
      "         braid run 'model.rank{rank}.onnx' --ranks 2 --input input_ids=ids.npy -o results\n"
      "         BRAID_ENGINE=mpi mpirun -n 4 braid run out --random 1");
  command->add_option("MODEL", o->model.model, "Folder of a compiled program, ONNX model or IR text")
      ->required();
  command->add_option("-o,--output", o->output,
                      "Folder for the outputs, as .npy (rank<r>/ each, if there are several)");
  o->execute.repeat = 0;  // not given
  command->add_option("--repeat", o->execute.repeat, "Number of steps (default: 1; 15 for a timeline)")
      ->check(CLI::Range(1, 1000000));
  command->add_option("--warmup", o->execute.warmup, "Steps before the measured ones")
      ->check(CLI::Range(0, 1000000));
  command->add_option("--threads", o->execute.omp_threads, "Threads per rank (default: cores / ranks)")
      ->check(CLI::Range(1, 1024));
  add_ranks_as(*command, o->execute.ranks_as);
  command->add_option("--trace", o->trace, "Write the timeline of the median step as a Chrome trace (CPU)");
  command->add_option("--trace-costs", o->costs,
                      "Write the measured times of kernels as a cost file for --costs (CPU)");
  add_device(*command, o->execute.device);
  o->inputs.add(*command);
  o->model.add_dimensions(*command);
  o->model.add_target(*command);
  o->model.add_passes(*command);
  command->callback([o, &chosen] { chosen = [o] { return run(*o); }; });
}

}  // namespace braid::cli
