// braid test: cases in the layout of ONNX's backend tests.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "cli/command.h"
#include "cli/exit_codes.h"
#include "cli/model_options.h"
#include "cli/report.h"
#include "cli/run_options.h"
#include "cli/status_line.h"
#include "codegen/output_files.h"
#include "harness/case_program.h"
#include "harness/compare.h"
#include "harness/launched.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::cli {
namespace {

struct TestOptions {
  ModelOptions model;
  std::vector<std::string> cases;
  std::string program;  // folder of a compiled program that is run instead of the cases' models
  harness::ExecuteOptions execute;
  harness::Tolerance tolerance;
  std::string target = "cpu";
  bool bind_shapes = false;
  std::string report;  // file
  bool quiet = false;
};

enum class Outcome { passed, failed, refused };

constexpr const char* kOutcomeNames[] = {"passed", "failed", "refused"};

// Error numbers of unsupported features: such a case is refused, not failed. So is a model that cannot be
// split over the ranks that were asked for.
bool unsupported(int code) {
  constexpr int kCodes[] = {errors::kOpset,
                            errors::kUnsupportedOperators,
                            errors::kUnknownDomain,
                            errors::kUnsupportedType,
                            errors::kDataDependentSize,
                            errors::kUnknownShape,
                            errors::kUnsupportedForm,
                            errors::kVersionConversion,
                            errors::kIndivisible,
                            errors::kNotInCpp,
                            errors::kNotInCuda};
  return std::ranges::find(kCodes, code) != std::end(kCodes);
}

// The facts about a case that --report writes.
struct CaseReport {
  std::set<std::string> bound;   // inputs that were bound to their values
  nlohmann::ordered_json error;  // of a case that is refused, or failed before it gave results
};

Outcome compare_data(const TestOptions& o, const Report& report, const harness::TestCase& test,
                     const std::string& name, const harness::RankTensors& outputs,
                     const std::vector<harness::RankResult>& results) {
  Outcome outcome = Outcome::passed;
  double worst = 0;
  for (const harness::RankResult& result : results) {
    const auto r = static_cast<std::size_t>(result.rank);
    const std::vector<ir::Tensor>& expected = outputs[outputs.size() == 1 ? 0 : r];
    const std::size_t count = std::min(result.outputs.size(), expected.size());
    if (result.outputs.size() != expected.size()) {
      report.print("FAILED {} {} rank {}: {} outputs, {} expected\n", test.dir, name, r,
                   result.outputs.size(), expected.size());
      outcome = Outcome::failed;
    }
    for (std::size_t k = 0; k < count; ++k) {
      const harness::Difference d = harness::compare(result.outputs[k], expected[k],
                                                     harness::tolerance_for(o.tolerance, expected[k].dtype));
      worst = std::max(worst, d.max_relative);
      if (d.ok()) continue;
      report.print("FAILED {} {} rank {} output {}: {}\n", test.dir, name, r, k, to_string(d));
      outcome = Outcome::failed;
    }
  }
  if (outcome == Outcome::passed && !o.quiet) {
    report.print("{}passed {} {}: max relative error {:.3g}\n", harness::rank_prefix(), test.dir, name,
                 worst);
  }
  return outcome;
}

Outcome run_case(const TestOptions& o, const Report& output, const std::string& dir, CaseReport& report) {
  const harness::TestCase test = harness::read_test_case(dir);
  CompileOptions options = compile_options(o.model, output);
  options.model = test.model;
  if (o.target != "interpreter") options.target = o.target;
  options.import.ranks = o.model.import.ranks > 1 ? o.model.import.ranks : test.ranks;
  if (options.import.ranks != test.ranks) {
    ir::user_error(
        errors::kRankCount, {.file = dir},
        fmt::format("the case is for {} ranks, but --ranks is {}", test.ranks, options.import.ranks),
        fmt::format("run it with --ranks {}", test.ranks));
  }
  if (options.split.wanted() && test.ranks != 1) {
    ir::user_error(errors::kRankCount, {.file = dir},
                   fmt::format("the case is for {} ranks and cannot be split", test.ranks),
                   "leave out --devices, --tp and --plan");
  }
  for (const auto& [name, bounds] : test.dims) options.import.dims.emplace(name, bounds);
  bool passed = true;
  std::optional<harness::CaseProgram> program;
  if (!o.program.empty()) program.emplace(o.program, o.execute, test);
  for (const harness::TestData& data : test.data) {
    if (o.bind_shapes) {
      options.import.bindable = harness::bindable_inputs(test, data);
      program.reset();
    }
    if (!program) {
      StatusLine status;
      status.show(fmt::format("compiling {}", dir));
      program.emplace(options, o.target == "interpreter", o.execute, test);
    }
    report.bound.insert(program->bound().begin(), program->bound().end());
    std::vector<harness::RankResult> results = program->run(data.inputs);
    const harness::RankTensors expected = program->expected(data, results);
    passed &= compare_data(o, output, test, data.name, expected, results) == Outcome::passed;
  }
  return passed ? Outcome::passed : Outcome::failed;
}

int run(const TestOptions& o, Report& output) {
  if (o.target == "interpreter" && o.execute.device != harness::DeviceChoice::automatic)
    ir::user_error(errors::kBadOption, {}, "--device is for CUDA programs, and the interpreter runs here",
                   "choose --target cuda, or leave --device out");
  int counts[3] = {0, 0, 0};
  nlohmann::ordered_json cases = nlohmann::ordered_json::array();
  for (const std::string& dir : o.cases) {
    Outcome outcome = Outcome::failed;
    CaseReport report;
    try {
      outcome = run_case(o, output, dir, report);
    } catch (const std::exception& error) {
      const auto* user = dynamic_cast<const ir::UserError*>(&error);
      if (user && unsupported(user->code())) outcome = Outcome::refused;
      report.error = error_json(error);
      output.print("{}{} {}: {}\n", harness::rank_prefix(),
                   outcome == Outcome::refused ? "refused" : "FAILED", dir, error.what());
    }
    ++counts[static_cast<int>(outcome)];
    nlohmann::ordered_json& entry = cases.emplace_back();
    entry["case"] = dir;
    entry["outcome"] = kOutcomeNames[static_cast<int>(outcome)];
    if (!report.bound.empty()) entry["bound"] = report.bound;
    if (!report.error.is_null()) entry["error"] = report.error;
    std::fflush(stdout);
  }
  output.print("{}{} passed, {} failed, {} refused\n", harness::rank_prefix(), counts[0], counts[1],
               counts[2]);
  if (counts[0] + counts[1] == 0)
    fmt::print(stderr, "{}no case was run: all were refused\n", harness::rank_prefix());
  if (!o.report.empty()) codegen::write_file(o.report, cases.dump(1) + "\n");
  output.json() = {{"passed", counts[0]}, {"failed", counts[1]}, {"refused", counts[2]}};
  output.json()["cases"] = std::move(cases);
  if (counts[1] > 0) return kNegative;
  return counts[0] > 0 ? kSuccess : kRefused;
}

}  // namespace

void add_test(Command app, Invocation& chosen) {
  auto o = std::make_shared<TestOptions>();
  const Command command = app.subcommand("test", "Run test cases in ONNX's backend test layout");
  command.footer(
      "Example: braid test cases/test_add cases/test_gelu\n         braid test --target interpreter "
      "--bind-shapes cases/test_reshape_extended_dims");
  command.option("CASE_DIR", o->cases, "Folders with model.onnx and test_data_set_*").required();
  command.option("--target", o->target, "cpu, cuda, or interpreter").one_of({"cpu", "cuda", "interpreter"});
  add_execution(command, o->execute);
  command.option("--program", o->program,
                 "Folder of a compiled program to run on the cases' data instead of compiling their models");
  add_tolerance(command, o->tolerance);
  command
      .flag("--bind-shapes", o->bind_shapes,
            "Make constants of inputs on which sizes, axes or choices depend that must be known while "
            "compiling; each data set is compiled with its own")
      .excludes("--program");
  command.option("--report", o->report, "Write a JSON file with the outcome of each case");
  command.flag("-q,--quiet", o->quiet, "Do not list passed cases");
  add_options(command, o->model, "target");
  command.callback([o, &chosen] { chosen = [o](Report& report) { return run(*o, report); }; });
}

}  // namespace braid::cli
