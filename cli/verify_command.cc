// braid verify: compares the compiled program with the interpreter on the same inputs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "cli/compare.h"
#include "cli/execute.h"
#include "cli/launched.h"
#include "cli/model_options.h"
#include "codegen/temp_dir.h"
#include "ir/error.h"
#include "ir/interpreter.h"

namespace braid::cli {
namespace {

struct Options {
  ModelOptions model;
  InputOptions inputs;
  ExecuteOptions execute;
  double limit = 1e-5;
};

int run(const Options& o) {
  CompileOptions options = o.model.compile_options();
  const ir::Schedule lowered = lower(options);  // the oracle runs the program as lowered, before any pass
  ir::Schedule schedule = lowered;
  optimise(schedule, options);
  codegen::TempDir temporary;
  options.output_dir = temporary.path();
  emit_program(schedule, options);
  const ProgramFiles program = find_program(temporary.path(), o.execute.device);
  const ProgramInterface table = interface_of(program);

  InputOptions given = o.inputs;
  if (!given.random) given.random = 1;
  const auto inputs = make_inputs(table.inputs, table.ranks, dim_values(table, o.model.dim_bounds()), given);
  const std::vector<RankResult> results = execute(program, inputs, o.execute);
  const ir::InterpreterResult expected = ir::run(lowered, inputs);

  bool good = true;
  for (const RankResult& result : results) {
    const auto r = static_cast<std::size_t>(result.rank);
    for (std::size_t k = 0; k < table.outputs.size(); ++k) {
      const Difference d =
          compare(result.outputs[k], expected.outputs[r][k], {.relative = o.limit, .absolute = o.limit});
      const bool ok = d.same_type && d.max_relative <= o.limit &&
                      (ir::is_float(result.outputs[k].dtype) || d.mismatches == 0);
      good &= ok;
      fmt::print("{} rank {} {}: {}\n", ok ? "equal " : "DIFFERS", r, table.outputs[k].name, to_string(d));
    }
  }
  fmt::print("{}{}\n", rank_prefix(),
             good ? "the program and the interpreter agree" : "the program and the interpreter differ");
  return good ? 0 : 1;
}

}  // namespace

void add_verify(CLI::App& app, Invocation& chosen) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("verify", "Compare the compiled program with the interpreter");
  command->footer("Example: braid verify small.onnx --dim batch=1..2 --dim sequence=1..16");
  command->add_option("MODEL", o->model.model, "ONNX model or IR text")->required();
  command->add_option("--limit", o->limit,
                      "Largest allowed error, relative to the largest element of the output (default 1e-5)");
  command->add_option("--threads", o->execute.omp_threads, "Threads per rank (default: cores / ranks)")
      ->check(CLI::Range(1, 1024));
  add_ranks_as(*command, o->execute.ranks_as);
  add_device(*command, o->execute.device);
  o->inputs.add(*command);
  o->model.add_dimensions(*command);
  o->model.add_target(*command);
  o->model.add_passes(*command);
  command->callback([o, &chosen] { chosen = [o] { return run(*o); }; });
}

}  // namespace braid::cli
