// braid opt: passes from text to text.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "analysis/costs/machine.h"
#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/pass_json.h"
#include "cli/pipeline_input.h"
#include "cli/report.h"
#include "driver/compile.h"
#include "driver/optimise.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/printer.h"

namespace braid::cli {
namespace {

struct OptOptions {
  ModelOptions model;
  std::string output;
  bool list = false;
  bool machines = false;
  bool timing = false;
};

int run(const OptOptions& o, Report& report) {
  CompileOptions options = compile_options(o.model, report);  // loads plug-ins: their passes are listed too
  refuse_for_text(o.model);
  if (o.list) {
    report.json()["passes"] = known_passes_json();
    report.print("{}", passes::list_passes());
    return 0;
  }
  if (o.machines) {
    for (const std::string& name : analysis::machine_names()) {
      report.json()["machines"].push_back(name);
      report.print("{}", analysis::to_string(analysis::load_machine(name)));
    }
    return 0;
  }
  if (o.model.model.empty())
    ir::user_error(errors::kNoInputFile, {}, "no input file is given",
                   "write braid opt FILE.braid --passes=...");
  if (!options.passes) options.passes = "";
  ir::Schedule schedule = lower(options);
  const std::vector<passes::PassRecord> records = optimise(schedule, options);
  if (o.timing) fmt::print(stderr, "{}", passes::to_string(records));
  const std::string text = ir::print(schedule);
  report.json()["passes"] = passes_json(records);
  write_output(report, "text", o.output, text);
  return 0;
}

}  // namespace

void add_opt(Command app, Invocation& chosen) {
  auto o = std::make_shared<OptOptions>();
  const Command command = app.subcommand("opt", "Run passes over IR text");
  command.footer("Example: braid opt graph.braid --passes=dead_code,fuse_vertical -o fused.braid");
  command.option("FILE", o->model.model, "IR text (.braid) or a model");
  command.option("-o,--output", o->output, "Output file (default: standard output)");
  command.flag("--list-passes", o->list, "List all passes with their options");
  command.flag("--list-machines", o->machines, "List the machines with cost models");
  command.flag("--timing", o->timing, "Print what each pass did and took to standard error");
  add_options(command, o->model);
  command.callback([o, &chosen] { chosen = [o](Report& report) { return run(*o, report); }; });
}

}  // namespace braid::cli
