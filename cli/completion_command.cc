// braid completion and braid man: what a shell and man(1) need, generated from the tree of commands.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/command_tree.h"
#include "cli/completion.h"
#include "cli/report.h"
#include "cli/usage.h"
#include "codegen/output_files.h"

namespace braid::cli {
namespace {

void tell(Report& report, const char* key, const std::string& text) {
  report.json()[key] = text;
  report.text(text);
}

int write_manual(const CLI::App& app, const std::string& dir, Report& report) {
  codegen::OutputFiles files(dir);
  for_each_command(app,
                   [&](const CLI::App& command) { files.write(manual_name(command), manual_page(command)); });
  for (const std::string& path : files.publish()) {
    report.json()["files"].push_back(path);
    report.print("{}\n", path);
  }
  return 0;
}

const CLI::App& named(const CLI::App& app, const std::vector<std::string>& names) {
  const CLI::App* at = &app;
  for (const std::string& name : names) {
    const CLI::App* next = nullptr;
    for (const CLI::App* below : at->get_subcommands([](const CLI::App*) { return true; })) {
      if (below->get_name() == name) next = below;
    }
    if (next == nullptr) unknown_command(*at, name);
    at = next;
  }
  return *at;
}

}  // namespace

// `app` is the whole tree of commands, which outlives the invocation.
void add_completion(Command app, Invocation& chosen) {
  auto shell = std::make_shared<std::string>("bash");
  const Command command = app.subcommand("completion", "Print the completion of a shell");
  command.footer("Example: braid completion bash > ~/.local/share/bash-completion/completions/braid");
  command.option("SHELL", *shell, "bash").one_of({"bash"});
  command.callback([app, shell, &chosen] {
    chosen = [app, shell](Report& report) {
      tell(report, "script", bash_completion(app.app()));
      return 0;
    };
  });
}

void add_man(Command app, Invocation& chosen) {
  struct Options {
    std::vector<std::string> names;
    std::string output;
  };
  auto o = std::make_shared<Options>();
  const Command command = app.subcommand("man", "Print the manual page of a command");
  command.footer(
      "Example: braid man pipeline show | man -l -\n         braid man -o ~/.local/share/man/man1");
  command.option("COMMAND", o->names, "A command, such as: pipeline show (default: braid itself)");
  command.option("-o,--output", o->output, "Folder into which all pages are written");
  command.callback([app, o, &chosen] {
    chosen = [app, o](Report& report) {
      if (!o->output.empty()) return write_manual(app.app(), o->output, report);
      tell(report, "page", manual_page(named(app.app(), o->names)));
      return 0;
    };
  });
}

}  // namespace braid::cli
