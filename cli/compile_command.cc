// braid compile: a model becomes sources, weights, a manifest and a library.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "cli/command.h"
#include "cli/given_inputs.h"
#include "cli/model_options.h"
#include "cli/pass_json.h"
#include "cli/report.h"
#include "cli/run_options.h"
#include "cli/status_line.h"
#include "cli/tell_split.h"
#include "codegen/output_files.h"
#include "driver/emit_onnx.h"
#include "harness/precision.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/printer.h"
#include "passes/drop_roundings.h"

namespace braid::cli {
namespace {

struct CompileCommandOptions {
  ModelOptions model;
  std::string output;
  std::string emit = "library";
  std::string collectives;
  bool annotate = false;
  std::string cpu;
  double max_error = -1;  // negative: no limit
  bool timing = false;
};

void publish(codegen::OutputFiles& files, Report& report) {
  for (const std::string& path : files.publish()) {
    report.json()["files"].push_back(path);
    report.print("{}\n", path);
  }
}

frontend::WriteParts writing(codegen::OutputFiles& files) {
  return [&files](const std::string& name, std::span<const std::string_view> parts) {
    files.write(name, parts);
  };
}

// The model as IR text.
void write_text(const CompileCommandOptions& o, const CompileOptions& options, const ir::Schedule& schedule,
                Report& report) {
  codegen::OutputFiles files(o.output);
  files.write(options.name + ".braid", ir::print(schedule));
  publish(files, report);
}

// Each rank's model.
void write_models(const CompileCommandOptions& o, const CompileOptions& options, Report& report) {
  if (is_text(options.model)) {
    ir::user_error(errors::kBadOption, {.file = options.model}, "--emit onnx: IR text is no ONNX model",
                   "give the model from which it comes");
  }
  frontend::EmitOnnxOptions emit{.name = options.name};
  if (!o.collectives.empty()) emit.form = *frontend::collective_form_named(o.collectives);
  codegen::OutputFiles files(o.output);
  emit_onnx(options, *options.split_report, emit, writing(files));
  publish(files, report);
}

// The plan, and those of --with by the names of their programs; a number follows where a name is taken.
void write_plans(const CompileOptions& options, codegen::OutputFiles& files) {
  std::set<std::string> names;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::string own = name;
    for (int k = 2; !names.insert(own).second; ++k) own = fmt::format("{}.{}", name, k);
    files.write(own + ".plan", text);
  };
  const split::FoundPlan& plan = options.split_report->plan;
  write(options.name, options.split_report->plan_text());
  for (std::size_t k = 0; k < options.split.with.size(); ++k)
    write(program_name(options.split.with[k].model),
          plan.text.empty() ? options.split_report->plan_text() : plan.with.at(k).text);
}

// How many products compute in the narrower type, and why the others do not.
void report_precision(const CompileOptions& options, const ir::Schedule& schedule,
                      const std::optional<harness::LimitedPrecision>& limited, Report& report) {
  if (options.precision == "f32") return;
  std::size_t products = 0, narrow = 0;
  nlohmann::ordered_json& json = report.json()["precision"];
  json["type"] = options.precision;
  json["f32"] = nlohmann::ordered_json::array();
  for (const passes::PrecisionChoice& choice :
       lower_precision(options).choices(schedule, pass_context(options))) {
    ++products;
    narrow += choice.reason.empty();
    if (!choice.reason.empty()) json["f32"].push_back({{"product", choice.name}, {"reason", choice.reason}});
  }
  json["products"] = products;
  json["narrow"] = narrow;
  std::string error;
  if (limited) {
    json["error"] = limited->error;
    json["returned"] = limited->kept;
    error = fmt::format("; largest error of an output {:.2g} of its largest element, {} returned to f32",
                        limited->error, limited->kept.size());
  }
  fmt::print(stderr, "note: {} of {} products, convolutions and attentions compute in {}{}\n", narrow,
             products, options.precision, error);
}

// Reports the roundings that drop_roundings left out.
void report_roundings(const passes::PassContext& context, Report& report) {
  if (context.dropped_roundings == 0) return;
  report.json()["roundings_left_out"] = context.dropped_roundings;
  fmt::print(
      stderr,
      "note: {} roundings between operators are left out inside of kernels (--disable {} keeps them)\n",
      context.dropped_roundings, passes::DropRoundings::kName);
}

std::optional<harness::LimitedPrecision> limit_error(const CompileCommandOptions& o, CompileOptions& options,
                                                     Report& report) {
  if (o.max_error < 0) return std::nullopt;
  StatusLine status;
  const auto inputs = [&](const harness::ProgramInterface& table) {
    return make_inputs(table, o.model, {.random = harness::kDefaultSeed}, report).ranks;
  };
  return harness::limit_error(options, {.max_error = o.max_error,
                                        .inputs = inputs,
                                        .execution = {.uploaded = show_upload()},
                                        .progress = [&](const std::string& doing) { status.show(doing); }});
}

int run(const CompileCommandOptions& o, Report& report) {
  using Clock = std::chrono::steady_clock;
  const auto milliseconds = [](Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double, std::milli>(to - from).count();
  };
  CompileOptions options = compile_options(o.model, report);
  refuse_for_text(o.model);
  options.output_dir = o.output;
  if (!o.cpu.empty() && codegen::target_named(options.target).abi != codegen::ProgramAbi::host) {
    ir::user_error(errors::kBadOption, {}, "--cpu is for programs that run on a processor",
                   fmt::format("--target {}:ARCHITECTURE says for which devices", options.target));
  }
  if (options.name.empty()) options.name = program_name(options.model);

  if (!o.collectives.empty() && o.emit != "onnx") {
    ir::user_error(errors::kBadOption, {}, "--collectives says how collectives of ONNX files are written",
                   "write --emit onnx");
  }
  if (o.annotate && o.emit != "plan") {
    ir::user_error(errors::kBadOption, {}, "--annotate writes the plan of a split into the model",
                   "write --emit plan");
  }
  if (o.max_error >= 0 && options.precision == "f32") {
    ir::user_error(errors::kBadOption, {}, "--max-error is the limit of a narrower --precision",
                   "write --precision bf16, f16 or int8");
  }
  if (o.max_error >= 0 && options.precision == "tf32") {
    ir::user_error(errors::kBadOption, {},
                   "--max-error measures on this processor, which does not compute in tf32",
                   "leave it out; the products of tf32 have 11 significant bits");
  }
  const std::optional<harness::LimitedPrecision> limited = limit_error(o, options, report);
  StatusLine status;
  const auto start = Clock::now();
  status.show(fmt::format("reading {}", options.model));
  options.split_report = std::make_shared<SplitReport>();
  options.split.weights = o.emit != "plan";
  ir::Schedule schedule = lower(options);
  const auto lowered = Clock::now();
  status.clear();
  tell_split(options, report);
  if (o.emit == "plan") {
    if (!options.split.wanted())
      ir::user_error(errors::kBadOption, {}, "--emit plan needs a model that is being split",
                     "give --devices, --tp or --plan");
    codegen::OutputFiles files(o.output);
    write_plans(options, files);
    if (o.annotate) emit_annotated(options, *options.split_report, {.name = options.name}, writing(files));
    publish(files, report);
    return 0;
  }
  if (o.emit == "onnx") {
    write_models(o, options, report);
    return 0;
  }
  if (o.emit == "ir") {
    write_text(o, options, schedule, report);
    return 0;
  }
  report_precision(options, schedule, limited, report);
  passes::PassContext context = pass_context(options);
  const std::vector<passes::PassRecord> records = optimise(schedule, options, context);
  report_roundings(context, report);
  const auto optimised = Clock::now();
  if (o.emit == "schedule") {
    write_text(o, options, schedule, report);
    return 0;
  }
  status.show("writing source and weights");
  StagedProgram program(schedule, options);
  const auto emitted = Clock::now();
  status.show("compiling the source");
  if (o.emit == "library") program.build({.architectures = options.architectures, .cpu = o.cpu});
  const auto built = Clock::now();
  status.clear();
  for (const std::string& file : program.publish()) {
    report.json()["files"].push_back(file);
    report.print("{}\n", file);
  }
  report.json()["name"] = options.name;
  report.json()["target"] = options.target;
  report.json()["ranks"] = schedule.graph.ranks;
  report.json()["passes"] = passes_json(records);
  report.json()["milliseconds"] = {{"lower", milliseconds(start, lowered)},
                                   {"passes", milliseconds(lowered, optimised)},
                                   {"emit", milliseconds(optimised, emitted)},
                                   {"host_compiler", milliseconds(emitted, built)}};
  if (o.timing) {
    fmt::print(stderr, "{}", passes::to_string(records));
    fmt::print(stderr, "lower {:.0f} ms, passes {:.0f} ms, emit {:.0f} ms, host compiler {:.0f} ms\n",
               milliseconds(start, lowered), milliseconds(lowered, optimised),
               milliseconds(optimised, emitted), milliseconds(emitted, built));
  }
  return 0;
}

}  // namespace

void add_compile(Command app, Invocation& chosen) {
  auto o = std::make_shared<CompileCommandOptions>();
  const Command command = app.subcommand("compile", "Compile a model to sources, weights and a library");
  command.footer(
      "Example: braid compile model.onnx -o out --dim batch=1..8 --dim sequence=1..1024\n"
      "         braid compile 'model.rank{rank}.onnx' --ranks 2 -o out");
  command
      .option("MODEL", o->model.model,
              "ONNX model ('{rank}' in its name: one file per rank) or IR text (.braid)")
      .required();
  command.option("-o,--output", o->output, "Output folder").required().check(not_empty());
  add_option(command, o->model, "name");
  command
      .option("--emit", o->emit,
              "plan (of a split), onnx (a model for each rank), ir (as lowered), schedule (after the "
              "passes), source, library")
      .one_of({"plan", "onnx", "ir", "schedule", "source", "library"});
  command
      .option("--collectives", o->collectives,
              "With --emit onnx: how collectives are written: ai.braid (default), com.microsoft (ONNX "
              "Runtime), DistCollective (TensorRT)")
      .one_of({"ai.braid", "com.microsoft", "DistCollective"});
  command.flag("--annotate", o->annotate,
               "With --emit plan: also write the model with the plan as ONNX's annotations, NAME.onnx");
  command.option("--cpu", o->cpu,
                 "Processor of the library, as the compiler's -march names it: x86-64-v3, znver3, ... "
                 "(default: this machine's)");
  command
      .option(
          "--max-error", o->max_error,
          "Largest error of an output against float32 that --precision may cause, relative to the output's "
          "largest element; products with the largest errors are returned to f32. Compiles and runs the "
          "model with random inputs")
      .check(finite_not_negative());
  command.flag("--timing", o->timing, "Print what each stage took to standard error");
  add_option(command, o->model, "checked");
  add_option(command, o->model, "standalone");
  add_options(command, o->model);
  command.callback([o, &chosen] { chosen = [o](Report& report) { return run(*o, report); }; });
}

}  // namespace braid::cli
