// braid inspect: what a model or a compiled program is, without compiling anything.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/bytes_text.h"
#include "cli/command.h"
#include "cli/program_facts.h"
#include "cli/report.h"
#include "frontend/inspect.h"
#include "harness/program_files.h"
#include "passes/pass.h"

namespace braid::cli {
namespace {

struct InspectOptions {
  std::string model;
  std::vector<std::string> plugins;
};

using frontend::ModelFacts;
using nlohmann::ordered_json;

void print(const ModelFacts& facts, const Report& report) {
  std::vector<std::string> opsets;
  for (const auto& [domain, version] : facts.opsets) opsets.push_back(fmt::format("{} {}", domain, version));
  report.print("model   IR version {}, {}{}\n", facts.ir_version, fmt::join(opsets, ", "),
               facts.producer.empty() ? "" : ", by " + facts.producer);
  for (const std::string& d : facts.dims) report.print("dim     {}\n", d);
  for (const auto& [what, values] : {std::pair{"input ", &facts.inputs}, {"output", &facts.outputs}}) {
    for (const ModelFacts::Value& v : *values)
      report.print("{}  {}: {}{}\n", what, v.name, v.type,
                   v.ranked ? fmt::format("[{}]", fmt::join(v.dims, ", ")) : " without a declared shape");
  }
  for (const ModelFacts::Value& v : facts.outputs) {
    if (!v.classes.empty()) report.print("classes {}: {}\n", v.name, v.classes);
  }
  report.print("weights {} in {} initializers\n", bytes_text(facts.weight_bytes), facts.weights);
  int nodes = 0;
  for (const ModelFacts::Operator& op : facts.operators) nodes += op.count;
  report.print("\n{} nodes, {} operators\n", nodes, facts.operators.size());
  for (const ModelFacts::Operator& op : facts.operators) {
    report.print("  {:<32} {:>6}{}\n", (op.domain.empty() ? "" : op.domain + ".") + op.name, op.count,
                 op.communicates ? "   collective" : "");
  }
  if (facts.refused) {
    report.print("\nrefused: {}\n", facts.refused->what());
  } else if (facts.unsupported.empty()) {
    report.print("\nall operators are supported\n");
  } else {
    report.print("\nnot supported\n");
  }
  for (const ModelFacts::Unsupported& u : facts.unsupported) {
    report.print("  {:<32} {:>6}   {} (first: node '{}')\n", u.op, u.nodes.size(), u.reason, u.nodes.front());
  }
}

ordered_json interface_json(const std::vector<ModelFacts::Value>& values) {
  ordered_json all = ordered_json::array();
  for (const ModelFacts::Value& v : values) {
    all.push_back({{"name", v.name},
                   {"type", v.type},
                   {"shape", v.ranked ? ordered_json(v.dims) : ordered_json(nullptr)}});
    if (!v.classes.empty()) all.back()["classes"] = v.classes;
  }
  return all;
}

void fill(const ModelFacts& facts, ordered_json& json) {
  json = {{"ir_version", facts.ir_version},
          {"producer", facts.producer},
          {"opsets", facts.opsets},
          {"dims", facts.dims},
          {"inputs", interface_json(facts.inputs)},
          {"outputs", interface_json(facts.outputs)},
          {"weights", facts.weights},
          {"weight_bytes", facts.weight_bytes},
          {"operators", ordered_json::array()},
          {"unsupported", ordered_json::array()}};
  for (const ModelFacts::Operator& op : facts.operators) {
    json["operators"].push_back({{"domain", op.domain.empty() ? "ai.onnx" : op.domain},
                                 {"name", op.name},
                                 {"count", op.count},
                                 {"collective", op.communicates}});
  }
  for (const ModelFacts::Unsupported& u : facts.unsupported)
    json["unsupported"].push_back({{"operator", u.op}, {"reason", u.reason}, {"nodes", u.nodes}});
  if (facts.refused) json["refused"] = error_json(*facts.refused);
}

int run(const InspectOptions& o, Report& report) {
  for (const std::string& path : o.plugins) passes::load_plugin(path);
  if (harness::is_program_dir(o.model)) {
    tell_program(o.model, report);
    return 0;
  }
  const ModelFacts facts = frontend::inspect_model(o.model);
  print(facts, report);
  fill(facts, report.json());
  return 0;
}

}  // namespace

void add_inspect(Command app, Invocation& chosen) {
  auto o = std::make_shared<InspectOptions>();
  const Command command = app.subcommand(
      "inspect", "Show what a model or a compiled program is: interface, operators, collectives, weights");
  command.footer(
      "Example: braid inspect model.onnx\n"
      "         braid inspect 'model.rank{rank}.onnx' --json\n"
      "         braid inspect out");
  command
      .option("MODEL", o->model,
              "ONNX model ('{rank}' in its name: one file per rank) or folder of a compiled program")
      .required();
  command.option("--plugin", o->plugins, "Shared libraries with additional operators").one_value();
  command.callback([o, &chosen] { chosen = [o](Report& report) { return run(*o, report); }; });
}

}  // namespace braid::cli
