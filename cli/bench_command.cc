// braid bench: how long a step of a program takes.
#include <fmt/format.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "analysis/costs/machine.h"
#include "cli/command.h"
#include "cli/execute.h"
#include "cli/model_options.h"
#include "cli/open_model.h"
#include "cli/profile.h"
#include "cli/report.h"
#include "cli/step_inputs.h"
#include "cli/time_text.h"
#include "codegen/temp_dir.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "runtime/program.h"

namespace braid::cli {
namespace {

struct Options {
  ModelOptions model;
  InputOptions inputs;
  ExecuteOptions execute;
  bool serve = false;
  bool profile = false;
  std::string cards, predicted_costs;
};

// Runs one step per line "run" on standard input and prints its nanoseconds, so that a driver can alternate
// with another program.
int serve(const ProgramFiles& files, const std::vector<ir::Tensor>& inputs, int threads) {
  if (threads > 0) omp_set_num_threads(threads);
  rt::Program program =
      rt::Program::open(rt::load_program(files.library, files.id), {.weights_dir = files.dir});
  const BraidProgram& table = program.table();
  StepInputs given(table, inputs);
  const std::span<const rt::TensorView> in = given.views();
  std::vector<rt::TensorView> out;
  program.prepare(program.dims_of(in));
  std::vector<ir::Tensor> outputs;
  for (int k = 0; k < table.output_count; ++k) {
    const auto shape = program.output_shape(static_cast<std::size_t>(k));
    outputs.push_back(ir::make_tensor(to_ir(table.outputs[k].dtype), {shape.begin(), shape.end()}));
  }
  for (int k = 0; k < table.output_count; ++k) {
    ir::Tensor& t = outputs[static_cast<std::size_t>(k)];
    void* data = table.outputs[k].alias_of_input >= 0
                     ? in[static_cast<std::size_t>(table.outputs[k].alias_of_input)].data
                     : t.bytes.data();
    out.push_back({data, static_cast<rt::DType>(table.outputs[k].dtype), t.sizes});
  }
  for (std::string line; std::getline(std::cin, line);) {
    if (line != "run") continue;
    given.restore();
    const auto begin = std::chrono::steady_clock::now();
    program.run(in, out);
    const auto end = std::chrono::steady_clock::now();
    fmt::print("{}\n", std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count());
    if (std::fflush(stdout) != 0) break;  // the reader is gone
  }
  return 0;
}

// The value that this part of the steps stays within.
std::int64_t percentile(const std::vector<std::int64_t>& sorted, int percent) {
  return sorted[std::min(sorted.size() - 1, sorted.size() * static_cast<std::size_t>(percent) / 100)];
}

void tell_times(const RankResult& result, Report& report) {
  std::vector<std::int64_t> times = result.step_ns;
  std::sort(times.begin(), times.end());
  const double mean = static_cast<double>(std::accumulate(times.begin(), times.end(), std::int64_t{0})) /
                      static_cast<double>(times.size());
  const std::int64_t p90 = percentile(times, 90), p99 = percentile(times, 99);
  report.print("rank {}: {} steps, min {}, median {}, p90 {}, p99 {}, max {}; {:.4g} steps/s\n", result.rank,
               times.size(), time_text(times.front()), time_text(median(times)), time_text(p90),
               time_text(p99), time_text(times.back()), 1e9 / mean);
  report.json()["ranks"].push_back({{"rank", result.rank},
                                    {"steps", times.size()},
                                    {"min_ns", times.front()},
                                    {"median_ns", median(times)},
                                    {"mean_ns", mean},
                                    {"p90_ns", p90},
                                    {"p99_ns", p99},
                                    {"max_ns", times.back()},
                                    {"steps_per_second", 1e9 / mean}});
}

void check_prediction(const Options& o, const ProgramFiles& program) {
  if (o.cards.empty() && o.predicted_costs.empty()) return;
  if (!program.emulated)
    ir::user_error(errors::kBadOption, {.file = o.model.model},
                   "--cards and --predicted-costs are for CUDA programs on the emulated device",
                   "add --device emulated");
  if (o.cards.empty())
    ir::user_error(errors::kBadOption, {.file = o.model.model}, "--predicted-costs needs --cards",
                   "scripts/kernel_cards.py --json prints them");
}

int run(const Options& o, Report& report) {
  codegen::TempDir temporary;
  const OpenedModel opened = open_model(o.model, o.execute.device, temporary, report);
  const ProgramFiles& program = opened.files;
  check_prediction(o, program);
  const GivenInputs inputs = make_inputs_or_draw(opened.table, o.model, o.inputs, report);
  if (o.serve) {
    if (opened.table.ranks != 1 || program.abi != codegen::ProgramAbi::host)
      ir::user_error(errors::kBadOption, {.file = o.model.model},
                     "--serve supports only CPU programs with one rank", "leave --serve out");
    return serve(program, inputs.ranks[0], o.execute.omp_threads);
  }
  ExecuteOptions execution = o.execute;
  execution.link = link_pacing(o.model);
  const bool cuda = program.abi != codegen::ProgramAbi::host;
  execution.record = o.profile && !cuda;
  const std::vector<RankResult> results = execute(program, inputs.ranks, execution);
  if (const std::string device = device_line(program); !device.empty()) {
    report.json()["device"] = device;
    report.print("on {}\n", device);
  }
  for (const RankResult& result : results) {
    if (result.step_ns.empty()) {
      report.print("rank {}: {} steps\n", result.rank, execution.repeat);
    } else {
      tell_times(result, report);
    }
  }
  const std::map<std::string, std::int64_t> dims = dim_values(opened.table, o.model.dim_bounds());
  const ir::Schedule* schedule = opened.schedule ? &*opened.schedule : nullptr;
  if (program.emulated)
    tell_predicted(program, inputs.ranks, execution, schedule, dims,
                   {o.model.machine.empty() ? "h200" : o.model.machine, o.cards, o.predicted_costs}, report);
  if (!o.profile) return 0;
  if (cuda) {
    execution.profile = true;
    tell_cuda_profile(program, execute(program, inputs.ranks, execution), schedule, dims,
                      o.model.machine.empty() ? analysis::kDefaultMachine : o.model.machine, report);
  } else {
    tell_profile(program, results, schedule, dims, threads_of_rank(execution, opened.table.ranks), report);
  }
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Invocation& chosen) {
  auto o = std::make_shared<Options>();
  o->execute.repeat = 20;
  o->execute.warmup = 3;
  CLI::App* command = app.add_subcommand("bench", "Time the steps of a program");
  command->footer(
      "Example: braid bench out --dim batch=1 --dim sequence=128 --threads 2 --repeat 50\n"
      "         braid bench model.onnx --dim batch=1 --profile");
  command->add_option("MODEL", o->model.model, "Folder of a compiled program, ONNX model or IR text")
      ->required();
  o->execute.add_steps(*command);
  command->add_flag("--profile", o->profile,
                    "Also time each kernel, and, of a model, compare it with what the machine can do; on the "
                    "emulated device, count launches, operations and bytes");
  command
      ->add_option("--cards", o->cards,
                   "Kernel cards of the program, for predicted times on the emulated device: what "
                   "scripts/kernel_cards.py --json prints")
      ->type_name("FILE");
  command
      ->add_option(
          "--predicted-costs", o->predicted_costs,
          "Write the predicted times of nodes as a cost file for --costs of explain, opt and compile "
          "(emulated device)")
      ->type_name("FILE");
  command->add_flag("--serve", o->serve,
                    "Run one step per line 'run' on standard input and print its nanoseconds");
  o->execute.add(*command);
  o->inputs.add(*command);
  add_options(*command, o->model);
  command->callback([o, &chosen] { chosen = [o](Report& report) { return run(*o, report); }; });
}

}  // namespace braid::cli
