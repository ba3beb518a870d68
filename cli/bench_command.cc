// braid bench: how long a step of a program takes.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "analysis/costs/machine.h"
#include "cli/command.h"
#include "cli/given_inputs.h"
#include "cli/model_options.h"
#include "cli/open_model.h"
#include "cli/profile.h"
#include "cli/report.h"
#include "cli/run_options.h"
#include "cli/time_text.h"
#include "codegen/temp_dir.h"
#include "harness/program.h"
#include "harness/rank_steps.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::cli {
namespace {

struct BenchOptions {
  ModelOptions model;
  harness::InputOptions inputs;
  harness::ExecuteOptions execute;
  bool serve = false;
  bool profile = false;
  std::string cards, predicted_costs;
};

// Runs one step per line "run" on standard input and prints its nanoseconds, so that a driver can alternate
// with another program.
int serve(const harness::Program& program, const std::vector<ir::Tensor>& inputs, int threads) {
  const std::unique_ptr<harness::Session> session = program.open({.threads = threads});
  harness::RankSteps steps(*session, *program.host_table(), inputs);
  for (std::string line; std::getline(std::cin, line);) {
    if (line != "run") continue;
    fmt::print("{}\n", steps.run());
    if (std::fflush(stdout) != 0) break;  // the reader is gone
  }
  return 0;
}

// The value that this part of the steps stays within.
std::int64_t percentile(const std::vector<std::int64_t>& sorted, int percent) {
  return sorted[std::min(sorted.size() - 1, sorted.size() * static_cast<std::size_t>(percent) / 100)];
}

void tell_times(const harness::RankResult& result, Report& report) {
  std::vector<std::int64_t> times = result.step_ns;
  std::sort(times.begin(), times.end());
  const double mean = static_cast<double>(std::accumulate(times.begin(), times.end(), std::int64_t{0})) /
                      static_cast<double>(times.size());
  const std::int64_t p90 = percentile(times, 90), p99 = percentile(times, 99);
  report.print("rank {}: {} steps, min {}, median {}, p90 {}, p99 {}, max {}; {:.4g} steps/s\n", result.rank,
               times.size(), time_text(times.front()), time_text(harness::median(times)), time_text(p90),
               time_text(p99), time_text(times.back()), 1e9 / mean);
  report.json()["ranks"].push_back({{"rank", result.rank},
                                    {"steps", times.size()},
                                    {"min_ns", times.front()},
                                    {"median_ns", harness::median(times)},
                                    {"mean_ns", mean},
                                    {"p90_ns", p90},
                                    {"p99_ns", p99},
                                    {"max_ns", times.back()},
                                    {"steps_per_second", 1e9 / mean}});
}

void check_prediction(const BenchOptions& o, bool emulated) {
  if (o.cards.empty() && o.predicted_costs.empty()) return;
  if (!emulated)
    ir::user_error(errors::kBadOption, {.file = o.model.model},
                   "--cards and --predicted-costs are for CUDA programs on the emulated device",
                   "add --device emulated");
  if (o.cards.empty())
    ir::user_error(errors::kBadOption, {.file = o.model.model}, "--predicted-costs needs --cards",
                   "scripts/kernel_cards.py --json prints them");
}

int run(const BenchOptions& o, Report& report) {
  codegen::TempDir temporary;
  const OpenedModel opened = open_model(o.model, o.execute.device, temporary, report);
  const harness::Program& program = *opened.program;
  const harness::ProgramInterface& table = program.interface();
  const bool emulated = program.files().emulated;
  check_prediction(o, emulated);
  const harness::GivenInputs inputs = make_inputs_or_draw(table, o.model, o.inputs, report);
  if (o.serve) {
    if (table.ranks != 1 || program.is_cuda())
      ir::user_error(errors::kBadOption, {.file = o.model.model},
                     "--serve supports only CPU programs with one rank", "leave --serve out");
    return serve(program, inputs.ranks[0], o.execute.omp_threads);
  }
  harness::ExecuteOptions execution = o.execute;
  execution.link = link_pacing(o.model);
  execution.record = o.profile && !program.is_cuda();
  const std::vector<harness::RankResult> results = harness::execute(program, inputs.ranks, execution);
  if (const std::string device = harness::device_line(program.files()); !device.empty()) {
    report.json()["device"] = device;
    report.print("on {}\n", device);
  }
  for (const harness::RankResult& result : results) {
    if (result.step_ns.empty()) {
      report.print("rank {}: {} steps\n", result.rank, execution.repeat);
    } else {
      tell_times(result, report);
    }
  }
  const std::map<std::string, std::int64_t> dims = harness::dim_values(table, o.model.dim_bounds());
  const ir::Schedule* schedule = opened.schedule ? &*opened.schedule : nullptr;
  if (emulated)
    tell_predicted(program, inputs.ranks, execution, schedule, dims,
                   {o.model.machine.empty() ? "h200" : o.model.machine, o.cards, o.predicted_costs}, report);
  if (!o.profile) return 0;
  const std::string machine = !program.is_cuda()         ? analysis::kCpuMachine
                              : !o.model.machine.empty() ? o.model.machine
                                                         : analysis::kDefaultMachine;
  std::map<std::string, harness::NodeWork> work;
  if (schedule != nullptr) work = harness::work_of(*schedule, dims, machine);
  if (program.is_cuda()) {
    execution.profile = true;
    const auto profiled = harness::execute(program, inputs.ranks, execution);
    tell_cuda_profile(harness::slowest_profile(program, profiled, work), emulated, schedule != nullptr,
                      machine, report);
  } else {
    tell_profile(harness::slowest_profile(program, results, work), schedule != nullptr,
                 harness::threads_of_rank(execution.omp_threads, table.ranks), report);
  }
  return 0;
}

}  // namespace

void add_bench(Command app, Invocation& chosen) {
  auto o = std::make_shared<BenchOptions>();
  o->execute.repeat = 20;
  o->execute.warmup = 3;
  const Command command = app.subcommand("bench", "Time the steps of a program");
  command.footer(
      "Example: braid bench out --dim batch=1 --dim sequence=128 --threads 2 --repeat 50\n"
      "         braid bench model.onnx --dim batch=1 --profile");
  command.option("MODEL", o->model.model, "Folder of a compiled program, ONNX model or IR text").required();
  add_steps(command, o->execute);
  command.flag("--profile", o->profile,
               "Also time each kernel, and, of a model, compare it with what the machine can do; on the "
               "emulated device, count launches, operations and bytes");
  command
      .option("--cards", o->cards,
              "Kernel cards of the program, for predicted times on the emulated device: what "
              "scripts/kernel_cards.py --json prints")
      .type_name("FILE");
  command
      .option("--predicted-costs", o->predicted_costs,
              "Write the predicted times of nodes as a cost file for --costs of explain, opt and compile "
              "(emulated device)")
      .type_name("FILE");
  command.flag("--serve", o->serve,
               "Run one step per line 'run' on standard input and print its nanoseconds");
  add_execution(command, o->execute);
  add_inputs(command, o->inputs);
  add_options(command, o->model);
  command.callback([o, &chosen] { chosen = [o](Report& report) { return run(*o, report); }; });
}

}  // namespace braid::cli
