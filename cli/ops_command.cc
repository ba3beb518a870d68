// braid ops: every operator that is lowered, with versions and types.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/report.h"
#include "frontend/op_registry.h"
#include "passes/pass.h"

namespace braid::cli {
namespace {

std::string domain_name(const frontend::OpSpec& op) { return op.domain.empty() ? "ai.onnx" : op.domain; }

std::string versions(const frontend::OpSpec& op) {
  return op.first_version == op.last_version ? fmt::format("{}", op.first_version)
                                             : fmt::format("{}-{}", op.first_version, op.last_version);
}

void print_table(const Report& report) {
  for (const frontend::OpSpec& op : frontend::all_ops()) {
    std::string types;
    for (ir::DType t : op.types.list()) types += (types.empty() ? "" : " ") + std::string(ir::to_string(t));
    report.print("{:<14} {:<24} {:<8} {}\n", domain_name(op), op.name, versions(op), types);
  }
}

void list_json(Report& report) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const frontend::OpSpec& op : frontend::all_ops()) {
    nlohmann::ordered_json types = nlohmann::ordered_json::array();
    for (ir::DType t : op.types.list()) types.push_back(ir::to_string(t));
    list.push_back({{"domain", domain_name(op)},
                    {"name", op.name},
                    {"first_version", op.first_version},
                    {"last_version", op.last_version},
                    {"types", types}});
  }
  report.json()["operators"] = std::move(list);
}

}  // namespace

void add_ops(Command app, Invocation& chosen) {
  struct Options {
    std::vector<std::string> plugins;
  };
  auto o = std::make_shared<Options>();
  const Command command = app.subcommand("ops", "List the supported ONNX operators with versions and types");
  command.footer("Example: braid ops --json");
  command.option("--plugin", o->plugins, "Shared libraries with additional operators").one_value();
  command.callback([o, &chosen] {
    chosen = [o](Report& report) {
      for (const std::string& path : o->plugins) passes::load_plugin(path);
      list_json(report);
      print_table(report);
      return 0;
    };
  });
}

}  // namespace braid::cli
