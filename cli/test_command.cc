// braid test: cases in the layout of ONNX's backend tests.
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
#include "cli/test_case.h"
#include "codegen/temp_dir.h"
#include "frontend/errors.h"
#include "ir/error.h"
#include "ir/interpreter.h"

namespace braid::cli {
namespace {

struct Options {
  ModelOptions model;
  std::vector<std::string> cases;
  std::string program;  // folder of a compiled program that is run instead of the cases' models
  ExecuteOptions execute;
  Tolerance tolerance;
  std::string target = "cpu";
  bool quiet = false;
};

// Half-precision results have two or three digits, so the default tolerance covers their rounding.
Tolerance tolerance_for(const Options& o, ir::DType dtype) {
  Tolerance tolerance = o.tolerance;
  if (dtype == ir::DType::f16 || dtype == ir::DType::bf16) {
    tolerance.relative = std::max(tolerance.relative, 1e-2);
    tolerance.absolute = std::max(tolerance.absolute, 1e-3);
  }
  return tolerance;
}

enum class Outcome { passed, failed, skipped };

// Error numbers of unsupported features: such a case is skipped, not failed.
bool unsupported(int code) {
  return code == 109 || code == 110 || code == 115 || code == 116 || code == 117 || code == 119 ||
         code == 103 || code == 601;
}

Outcome compare_data(const Options& o, const TestCase& test, const TestData& data,
                     const std::vector<RankResult>& results) {
  Outcome outcome = Outcome::passed;
  double worst = 0;
  for (const RankResult& result : results) {
    const auto r = static_cast<std::size_t>(result.rank);
    const std::size_t count = std::min(result.outputs.size(), data.outputs[r].size());
    if (result.outputs.size() != data.outputs[r].size()) {
      fmt::print("FAILED {} {} rank {}: {} outputs, {} expected\n", test.dir, data.name, r,
                 result.outputs.size(), data.outputs[r].size());
      outcome = Outcome::failed;
    }
    for (std::size_t k = 0; k < count; ++k) {
      const Difference d =
          compare(result.outputs[k], data.outputs[r][k], tolerance_for(o, data.outputs[r][k].dtype));
      worst = std::max(worst, d.max_relative);
      if (d.ok()) continue;
      fmt::print("FAILED {} {} rank {} output {}: {}\n", test.dir, data.name, r, k, to_string(d));
      outcome = Outcome::failed;
    }
  }
  if (outcome == Outcome::passed && !o.quiet) {
    fmt::print("{}passed {} {}: max relative error {:.3g}\n", rank_prefix(), test.dir, data.name, worst);
  }
  return outcome;
}

Outcome run_case(const Options& o, const std::string& dir) {
  const TestCase test = read_test_case(dir);
  CompileOptions options = o.model.compile_options();
  options.model = test.model;
  if (o.target != "interpreter") options.target = o.target;
  options.import.ranks = o.model.ranks > 1 ? o.model.ranks : test.ranks;
  if (options.import.ranks != test.ranks) {
    ir::user_error(
        frontend::kRankCount, {.file = dir},
        fmt::format("the case is for {} ranks, but --ranks is {}", test.ranks, options.import.ranks),
        fmt::format("run it with --ranks {}", test.ranks));
  }
  for (const auto& [name, bounds] : test.dims) options.import.dims.emplace(name, bounds);
  codegen::TempDir temporary;
  ir::Schedule schedule;
  ProgramFiles program;
  if (!o.program.empty()) {
    program = find_program(o.program);
    if (const int ranks = interface_of(program).ranks; ranks != test.ranks) {
      ir::user_error(frontend::kRankCount, {.file = dir},
                     fmt::format("the case is for {} ranks, but the program is for {}", test.ranks, ranks),
                     fmt::format("compile the program with --ranks {}", test.ranks));
    }
  } else {
    schedule = lower(options);
    optimise(schedule, options);
  }
  if (o.program.empty() && o.target != "interpreter") {
    options.output_dir = temporary.path();
    emit_program(schedule, options);
    program = find_program(options.output_dir);
  }
  Outcome outcome = Outcome::passed;
  for (const TestData& data : test.data) {
    std::vector<RankResult> results;
    if (o.program.empty() && o.target == "interpreter") {
      for (std::vector<ir::Tensor>& outputs :
           ir::run(schedule, data.inputs, {.use_plan = schedule.plan.has_value()}).outputs) {
        const int rank = static_cast<int>(results.size());
        results.push_back({.rank = rank, .outputs = std::move(outputs)});
      }
    } else {
      results = execute(program, data.inputs, o.execute);
    }
    if (compare_data(o, test, data, results) == Outcome::failed) outcome = Outcome::failed;
  }
  return outcome;
}

int run(const Options& o) {
  int counts[3] = {0, 0, 0};
  for (const std::string& dir : o.cases) {
    Outcome outcome = Outcome::failed;
    try {
      outcome = run_case(o, dir);
    } catch (const ir::UserError& error) {
      outcome = unsupported(error.code()) ? Outcome::skipped : Outcome::failed;
      fmt::print("{}{} {}: {}\n", rank_prefix(), outcome == Outcome::skipped ? "skipped" : "FAILED", dir,
                 error.what());
    } catch (const std::exception& error) {
      fmt::print("{}FAILED {}: {}\n", rank_prefix(), dir, error.what());
    }
    ++counts[static_cast<int>(outcome)];
    std::fflush(stdout);
  }
  fmt::print("{}{} passed, {} failed, {} skipped\n", rank_prefix(), counts[0], counts[1], counts[2]);
  if (counts[0] + counts[1] == 0) fmt::print(stderr, "{}no case was run: all were skipped\n", rank_prefix());
  return counts[0] > 0 && counts[1] == 0 ? 0 : 1;
}

}  // namespace

void add_test(CLI::App& app, Invocation& chosen) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("test", "Run test cases in ONNX's backend test layout");
  command->footer(
      "Example: braid test cases/test_add cases/test_gelu\n         braid test --target interpreter "
      "cases/test_add");
  command->add_option("CASE_DIR", o->cases, "Folders with model.onnx and test_data_set_*")->required();
  command->add_option("--target", o->target, "cpu, cuda (on the emulated device), or interpreter")
      ->check(CLI::IsMember({"cpu", "cuda", "interpreter"}));
  command->add_option(
      "--program", o->program,
      "Folder of a compiled program to run on the cases' data instead of compiling their models");
  command->add_option("--rtol", o->tolerance.relative,
                      "Relative tolerance (default 1e-3, as ONNX's; at least 1e-2 for f16 and bf16)");
  command->add_option("--atol", o->tolerance.absolute,
                      "Absolute tolerance (default 1e-7; at least 1e-3 for f16 and bf16)");
  command->add_option("--threads", o->execute.omp_threads, "Threads per rank (default: cores / ranks)")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--ranks-as-threads", o->execute.threads_as_ranks, "Run ranks as threads of one process");
  command->add_flag("-q,--quiet", o->quiet, "Do not list passed cases");
  o->model.add_dimensions(*command);
  o->model.add_passes(*command);
  command->callback([o, &chosen] { chosen = [o] { return run(*o); }; });
}

}  // namespace braid::cli
