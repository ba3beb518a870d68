#include "cli/command_tree.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/exit_codes.h"
#include "cli/report.h"
#include "cli/version.h"

namespace braid::cli {
namespace {

// CLI11 writes a flag that takes a value as "--json{-}".
class HelpText : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* option, bool positional) const override {
    std::string name = CLI::Formatter::make_option_name(option, positional);
    if (const std::size_t brace = name.find("{-}"); brace != std::string::npos)
      name.replace(brace, 3, "[=FILE]");
    return name;
  }
};

// Commands that do something have --json, whatever they do.
void add_json(CLI::App& command, Report& report) {
  for (CLI::App* below : command.get_subcommands({})) add_json(*below, report);
  if (!command.get_subcommands({}).empty()) return;
  command
      .add_flag("--json{-}", report.target(),
                "Write what the command tells as JSON instead, or, as --json=FILE, into a file as well")
      ->group("Output");
}

}  // namespace

std::unique_ptr<CLI::App> command_tree(Invocation& chosen, Report& report) {
  auto app = std::make_unique<CLI::App>(
      "Compiles ONNX graphs with collectives into C++ or CUDA+NCCL programs.", "braid");
  app->formatter(std::make_shared<HelpText>());  // of all commands: they are added after it
  app->require_subcommand(1);
  app->set_version_flag("--version", version_text());
  app->set_help_all_flag("--help-all", "Print the help of all subcommands");
  std::string codes = "Exit codes:";
  for (const ExitCodeRow& row : exit_code_rows())
    codes += fmt::format("\n  {:>3}  {}", row.code, row.meaning);
  app->footer("Example: braid run model.onnx --default-dim 8\n         braid run --help\n\n" + codes);
  const Command root(*app);
  add_inspect(root, chosen);
  add_compile(root, chosen);
  add_run(root, chosen);
  add_bench(root, chosen);
  add_test(root, chosen);
  add_verify(root, chosen);
  add_check(root, chosen);
  add_explain(root, chosen);
  add_opt(root, chosen);
  add_pipeline(root, chosen);
  add_ops(root, chosen);
  add_completion(root, chosen);
  add_man(root, chosen);
  add_json(*app, report);
  return app;
}

void for_each_command(const CLI::App& command, const std::function<void(const CLI::App&)>& visit) {
  visit(command);
  for (const CLI::App* below : command.get_subcommands([](const CLI::App*) { return true; }))
    for_each_command(*below, visit);
}

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

}  // namespace braid::cli
