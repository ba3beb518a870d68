// braid bench: how long a step of a program takes.
#include <fmt/format.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/errors.h"
#include "cli/execute.h"
#include "cli/model_options.h"
#include "cli/open_model.h"
#include "cli/step_inputs.h"
#include "codegen/temp_dir.h"
#include "ir/error.h"
#include "runtime/program.h"

namespace braid::cli {
namespace {

struct Options {
  ModelOptions model;
  InputOptions inputs;
  ExecuteOptions execute;
  bool serve = false;
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

int run(const Options& o) {
  codegen::TempDir temporary;
  const auto [program, table] = open_model(o.model, o.execute.device, temporary);
  InputOptions inputs = o.inputs;
  if (!inputs.random) inputs.random = 1;
  const auto tensors =
      make_inputs(table.inputs, table.ranks, dim_values(table, o.model.dim_bounds()), inputs);
  if (o.serve) {
    if (table.ranks != 1 || program.abi != codegen::ProgramAbi::host)
      ir::user_error(kBadOption, {.file = o.model.model}, "--serve supports only CPU programs with one rank",
                     "leave --serve out");
    return serve(program, tensors[0], o.execute.omp_threads);
  }
  ExecuteOptions execution = o.execute;
  execution.link = link_pacing(o.model);
  const std::vector<RankResult> results = execute(program, tensors, execution);
  if (const std::string device = device_line(program); !device.empty()) fmt::print("on {}\n", device);
  for (const RankResult& result : results) {
    std::vector<std::int64_t> times = result.step_ns;
    if (times.empty()) {
      fmt::print("rank {}: {} steps\n", result.rank, execution.repeat);
      continue;
    }
    std::sort(times.begin(), times.end());
    const std::size_t p99 = std::min(times.size() - 1, times.size() * 99 / 100);
    fmt::print("rank {}: {} steps, min {:.3f} ms, median {:.3f} ms, p99 {:.3f} ms\n", result.rank,
               times.size(), static_cast<double>(times.front()) / 1e6,
               static_cast<double>(times[times.size() / 2]) / 1e6, static_cast<double>(times[p99]) / 1e6);
  }
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Invocation& chosen) {
  auto o = std::make_shared<Options>();
  o->execute.repeat = 20;
  o->execute.warmup = 3;
  CLI::App* command = app.add_subcommand("bench", "Time the steps of a program");
  command->footer("Example: braid bench out --dim batch=1 --dim sequence=128 --threads 2 --repeat 50");
  command->add_option("MODEL", o->model.model, "Folder of a compiled program, ONNX model or IR text")
      ->required();
  command->add_option("--repeat", o->execute.repeat, "Measured steps")->check(CLI::Range(1, 1000000));
  command->add_option("--warmup", o->execute.warmup, "Warm-up steps before them")
      ->check(CLI::Range(0, 1000000));
  command->add_option("--threads", o->execute.omp_threads, "Threads per rank (default: cores / ranks)")
      ->check(CLI::Range(1, 1024));
  add_ranks_as(*command, o->execute.ranks_as);
  command->add_flag("--serve", o->serve,
                    "Run one step per line 'run' on standard input and print its nanoseconds");
  add_device(*command, o->execute.device);
  o->inputs.add(*command);
  o->model.add_dimensions(*command);
  o->model.add_passes(*command);
  command->callback([o, &chosen] { chosen = [o] { return run(*o); }; });
}

}  // namespace braid::cli
