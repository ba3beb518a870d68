// braid test: cases in the layout of ONNX's backend tests.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "cli/command.h"
#include "cli/compare.h"
#include "cli/execute.h"
#include "cli/exit_codes.h"
#include "cli/launched.h"
#include "cli/model_options.h"
#include "cli/output_files.h"
#include "cli/parts.h"
#include "cli/report.h"
#include "cli/status_line.h"
#include "cli/test_case.h"
#include "codegen/temp_dir.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
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

Outcome compare_data(const Options& o, const Report& report, const TestCase& test, const std::string& name,
                     const std::vector<std::vector<ir::Tensor>>& outputs,
                     const std::vector<RankResult>& results) {
  Outcome outcome = Outcome::passed;
  double worst = 0;
  for (const RankResult& result : results) {
    const auto r = static_cast<std::size_t>(result.rank);
    const std::vector<ir::Tensor>& expected = outputs[outputs.size() == 1 ? 0 : r];
    const std::size_t count = std::min(result.outputs.size(), expected.size());
    if (result.outputs.size() != expected.size()) {
      report.print("FAILED {} {} rank {}: {} outputs, {} expected\n", test.dir, name, r,
                   result.outputs.size(), expected.size());
      outcome = Outcome::failed;
    }
    for (std::size_t k = 0; k < count; ++k) {
      const Difference d =
          compare(result.outputs[k], expected[k], tolerance_for(o.tolerance, expected[k].dtype));
      worst = std::max(worst, d.max_relative);
      if (d.ok()) continue;
      report.print("FAILED {} {} rank {} output {}: {}\n", test.dir, name, r, k, to_string(d));
      outcome = Outcome::failed;
    }
  }
  if (outcome == Outcome::passed && !o.quiet) {
    report.print("{}passed {} {}: max relative error {:.3g}\n", rank_prefix(), test.dir, name, worst);
  }
  return outcome;
}

using Inputs = std::vector<std::vector<ir::Tensor>>;  // per rank

// The inputs of a data set by name; only those that are equal on all ranks, which run one program.
std::map<std::string, ir::Tensor> bindable_inputs(const TestCase& test, const TestData& data) {
  std::map<std::string, ir::Tensor> values;
  for (std::size_t k = 0; k < std::min(test.input_names.size(), data.inputs[0].size()); ++k) {
    const auto same = [&](const auto& rank) { return k < rank.size() && rank[k] == data.inputs[0][k]; };
    if (std::all_of(data.inputs.begin(), data.inputs.end(), same))
      values.emplace(test.input_names[k], data.inputs[0][k]);
  }
  return values;
}

// Which parts of the inputs and outputs of a plain case a program of several ranks has.
struct CaseParts {
  std::vector<std::optional<TensorPart>> inputs, outputs;  // in the order of the program's

  // Returns the inputs of every rank.
  Inputs given(const std::vector<ir::Tensor>& plain, int ranks) const {
    Inputs all(static_cast<std::size_t>(ranks), plain);
    for (std::size_t r = 0; r < all.size(); ++r) {
      for (std::size_t k = 0; k < std::min(inputs.size(), plain.size()); ++k)
        if (inputs[k] && inputs[k]->is_whole(plain[k]))
          all[r][k] = inputs[k]->given(plain[k], static_cast<int>(r));
    }
    return all;
  }

  // Returns the outputs that every rank must return; the results lose their padding.
  std::vector<std::vector<ir::Tensor>> expected(const std::vector<ir::Tensor>& plain, int ranks,
                                                std::vector<RankResult>& results) const {
    std::vector<std::vector<ir::Tensor>> all(static_cast<std::size_t>(ranks), plain);
    for (RankResult& result : results) {
      std::vector<ir::Tensor>& own = all[static_cast<std::size_t>(result.rank)];
      for (std::size_t k = 0; k < std::min({own.size(), outputs.size(), result.outputs.size()}); ++k)
        if (outputs[k] && outputs[k]->is_whole(own[k]))
          own[k] = outputs[k]->expected(own[k], result.rank, result.outputs[k]);
    }
    return all;
  }

  void require_no_terms(const std::string& program) const {
    for (const auto* all : {&inputs, &outputs}) {
      const auto term = std::ranges::find_if(*all, [](const auto& part) { return part && part->is_term(); });
      if (term == all->end()) continue;
      ir::user_error(errors::kSplitRequest, {.file = program},
                     fmt::format("each rank has a term of the {}put {}, but the case has it whole",
                                 all == &inputs ? "in" : "out", term - all->begin()),
                     "let the plan keep it whole, or split a dimension of it");
    }
  }
};

// The model of a case, lowered for the interpreter or compiled for a target; or the compiled program of
// --program.
class CaseProgram {
 public:
  CaseProgram(const Options& o, CompileOptions options, const TestCase& test)
      : o_(o), split_(options.split.wanted()) {
    schedule_ = lower(options);
    ranks_ = schedule_.graph.ranks;
    for (std::size_t k = 0; k < test.input_names.size(); ++k) {
      const std::string& name = test.input_names[k];
      const auto has_name = [&](const ir::GraphInput& input) { return input.name == name; };
      const auto& left = schedule_.graph.inputs;
      if (!options.import.bindable.count(name) || std::any_of(left.begin(), left.end(), has_name)) continue;
      bound_.insert(name);
      bound_positions_.push_back(k);
    }
    if (split_) {
      const ir::Graph& graph = schedule_.graph;
      for (const ir::GraphInput& i : graph.inputs)
        parts_.inputs.push_back(TensorPart::of(i.part, graph, i.buffer));
      for (const ir::GraphOutput& i : graph.outputs)
        parts_.outputs.push_back(TensorPart::of(i.part, graph, i.buffer));
      parts_.require_no_terms(options.model);
    }
    optimise(schedule_, options);
    if (o.target == "interpreter") return;
    options.output_dir = temporary_.path();
    emit_program(schedule_, options);
    program_ = find_program(options.output_dir, o.execute.device, options.model);
  }

  // A program of several ranks may have been made of the plain model of the case.
  CaseProgram(const Options& o, const TestCase& test)
      : o_(o), program_(find_program(o.program, o.execute.device, o.program)) {
    const ProgramInterface table = interface_of(program_);
    ranks_ = table.ranks;
    split_ = test.ranks == 1 && ranks_ > 1;
    if (ranks_ != test.ranks && !split_) {
      ir::user_error(errors::kRankCount, {.file = test.dir},
                     fmt::format("the case is for {} ranks, but the program is for {}", test.ranks, ranks_),
                     fmt::format("compile the program with --ranks {}", test.ranks));
    }
    if (!split_) return;
    require_plain_inputs(table, test);
    for (const InputSpec& i : table.inputs) parts_.inputs.push_back(i.part);
    for (const ProgramInterface::Output& i : table.outputs) parts_.outputs.push_back(i.part);
    parts_.require_no_terms(o.program);
  }

  // The inputs that are constants of the program.
  const std::set<std::string>& bound() const { return bound_; }

  // Returns the outputs that the ranks must return; their results lose their padding.
  std::vector<std::vector<ir::Tensor>> expected(const TestData& data,
                                                std::vector<RankResult>& results) const {
    return split_ ? parts_.expected(data.outputs[0], ranks_, results) : data.outputs;
  }

  std::vector<RankResult> run(Inputs inputs) const {
    for (std::vector<ir::Tensor>& rank : inputs) {
      for (auto k = bound_positions_.rbegin(); k != bound_positions_.rend(); ++k)
        rank.erase(rank.begin() + static_cast<std::ptrdiff_t>(*k));
    }
    if (split_) inputs = parts_.given(inputs[0], ranks_);
    if (!o_.program.empty() || o_.target != "interpreter") return execute(program_, inputs, o_.execute);
    std::vector<RankResult> results;
    for (std::vector<ir::Tensor>& outputs :
         ir::run(schedule_, inputs, {.use_plan = schedule_.plan.has_value()}).outputs) {
      const int rank = static_cast<int>(results.size());
      results.push_back({.rank = rank, .outputs = std::move(outputs)});
    }
    return results;
  }

 private:
  // A program that was split by hand takes other tensors than the plain case has.
  static void require_plain_inputs(const ProgramInterface& table, const TestCase& test) {
    for (const TestData& data : test.data) {
      for (std::size_t k = 0; k < std::min(table.inputs.size(), data.inputs[0].size()); ++k) {
        const InputSpec& spec = table.inputs[k];
        const std::vector<std::int64_t>& given = data.inputs[0][k].sizes;
        bool same = given.size() == spec.sizes.size();
        for (std::size_t d = 0; same && d < given.size(); ++d) {
          const std::int64_t size =
              spec.part && spec.part->whole()[d] ? *spec.part->whole()[d] : spec.sizes[d].constant;
          same = size < 0 || size == given[d];
        }
        if (same) continue;
        ir::user_error(
            errors::kRankCount, {.file = test.dir},
            fmt::format(
                "the case is for one rank, and its input '{}' [{}] is none of the program, which is for {}",
                spec.name, fmt::join(given, ", "), table.ranks),
            "give a program that braid compile has split (--devices, --tp, --mesh, --plan)");
      }
    }
  }

  const Options& o_;
  ir::Schedule schedule_;
  int ranks_ = 1;
  bool split_ = false;  // a plain case on several ranks
  CaseParts parts_;
  std::set<std::string> bound_;
  std::vector<std::size_t> bound_positions_;  // ascending
  codegen::TempDir temporary_;
  ProgramFiles program_;
};

Outcome run_case(const Options& o, const Report& output, const std::string& dir, CaseReport& report) {
  const TestCase test = read_test_case(dir);
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
  const auto check = [&](const TestData& data, const std::vector<std::vector<ir::Tensor>>& expected,
                         const std::vector<RankResult>& results) {
    passed &= compare_data(o, output, test, data.name, expected, results) == Outcome::passed;
  };
  std::optional<CaseProgram> program;
  if (!o.program.empty()) program.emplace(o, test);
  for (const TestData& data : test.data) {
    if (o.bind_shapes) {
      options.import.bindable = bindable_inputs(test, data);
      program.reset();
    }
    if (!program) {
      StatusLine status;
      status.show(fmt::format("compiling {}", dir));
      program.emplace(o, options, test);
    }
    report.bound.insert(program->bound().begin(), program->bound().end());
    std::vector<RankResult> results = program->run(data.inputs);
    const std::vector<std::vector<ir::Tensor>> expected = program->expected(data, results);
    check(data, expected, results);
  }
  return passed ? Outcome::passed : Outcome::failed;
}

int run(const Options& o, Report& output) {
  if (o.target == "interpreter" && o.execute.device != DeviceChoice::automatic)
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
      output.print("{}{} {}: {}\n", rank_prefix(), outcome == Outcome::refused ? "refused" : "FAILED", dir,
                   error.what());
    }
    ++counts[static_cast<int>(outcome)];
    nlohmann::ordered_json& entry = cases.emplace_back();
    entry["case"] = dir;
    entry["outcome"] = kOutcomeNames[static_cast<int>(outcome)];
    if (!report.bound.empty()) entry["bound"] = report.bound;
    if (!report.error.is_null()) entry["error"] = report.error;
    std::fflush(stdout);
  }
  output.print("{}{} passed, {} failed, {} refused\n", rank_prefix(), counts[0], counts[1], counts[2]);
  if (counts[0] + counts[1] == 0) fmt::print(stderr, "{}no case was run: all were refused\n", rank_prefix());
  if (!o.report.empty()) write_file(o.report, cases.dump(1) + "\n");
  output.json() = {{"passed", counts[0]}, {"failed", counts[1]}, {"refused", counts[2]}};
  output.json()["cases"] = std::move(cases);
  if (counts[1] > 0) return kNegative;
  return counts[0] > 0 ? kSuccess : kRefused;
}

}  // namespace

void add_test(CLI::App& app, Invocation& chosen) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("test", "Run test cases in ONNX's backend test layout");
  command->footer(
      "Example: braid test cases/test_add cases/test_gelu\n         braid test --target interpreter "
      "--bind-shapes cases/test_reshape_extended_dims");
  command->add_option("CASE_DIR", o->cases, "Folders with model.onnx and test_data_set_*")->required();
  command->add_option("--target", o->target, "cpu, cuda, or interpreter")
      ->check(CLI::IsMember({"cpu", "cuda", "interpreter"}));
  o->execute.add(*command);
  command->add_option(
      "--program", o->program,
      "Folder of a compiled program to run on the cases' data instead of compiling their models");
  add_tolerance(*command, o->tolerance);
  command
      ->add_flag("--bind-shapes", o->bind_shapes,
                 "Make constants of inputs on which sizes, axes or choices depend that must be known while "
                 "compiling; each data set is compiled with its own")
      ->excludes("--program");
  command->add_option("--report", o->report, "Write a JSON file with the outcome of each case");
  command->add_flag("-q,--quiet", o->quiet, "Do not list passed cases");
  add_options(*command, o->model, "target");
  command->callback([o, &chosen] { chosen = [o](Report& report) { return run(*o, report); }; });
}

}  // namespace braid::cli
