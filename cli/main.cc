// braid: argument parsing and printing; everything else is in the compiler and the runtime.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/errors.h"
#include "cli/launched.h"
#include "ir/error.h"
#include "runtime/program.h"

namespace {

constexpr int kUserError = 1;
constexpr int kInternalError = 70;  // EX_SOFTWARE

int guarded(const braid::cli::Action& action) {
  try {
    return action();
  } catch (const braid::ir::UserError& error) {
    fmt::print(stderr, "{}{}\n", braid::cli::rank_prefix(), error.what());
    return kUserError;
  } catch (const braid::rt::ProgramError& error) {
    fmt::print(stderr, "{}{}\n", braid::cli::rank_prefix(), error.what());
    return kUserError;
  } catch (const braid::cli::ReportedError&) {
    return kUserError;
  } catch (const std::filesystem::filesystem_error& error) {
    fmt::print(stderr, "error BR{:04}: {}\n  hint: check the path, its rights and the disk\n",
               braid::cli::kCannotWrite, error.what());
    return kUserError;
  } catch (const std::exception& error) {
    fmt::print(stderr, "internal error: {}\n  Please report this, with the model or text that shows it.\n",
               error.what());
    return kInternalError;
  }
}

// "there is no command 'x'" with those that exist, where an argument stands in a command's place; CLI11 would
// only say that a command is required. Empty where that is not what is wrong.
std::string unknown_command(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  const std::vector<std::string> rest = at->remaining();
  if (at->get_require_subcommand_min() == 0 || rest.empty()) return {};
  std::vector<std::string> names;
  for (const CLI::App* command : at->get_subcommands({})) names.push_back(command->get_name());
  return fmt::format("{} has no command '{}'; its commands are {}", at->get_display_name(), rest.front(),
                     fmt::join(names, ", "));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Compiles ONNX graphs with collectives into C++ or CUDA+NCCL programs.", "braid"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "braid 0.1.0");
  app.set_help_all_flag("--help-all", "Help of all subcommands");

  braid::cli::Action chosen;
  braid::cli::add_compile(app, chosen);
  braid::cli::add_run(app, chosen);
  braid::cli::add_bench(app, chosen);
  braid::cli::add_test(app, chosen);
  braid::cli::add_verify(app, chosen);
  braid::cli::add_check(app, chosen);
  braid::cli::add_explain(app, chosen);
  braid::cli::add_opt(app, chosen);
  braid::cli::add_pipeline(app, chosen);
  braid::cli::add_ops(app, chosen);

  try {
    app.parse(argc, argv);
  } catch (const CLI::RequiredError& error) {
    const std::string unknown = unknown_command(app);
    if (unknown.empty()) return app.exit(error) == 0 ? 0 : kUserError;
    fmt::print(stderr, "{}\nRun with --help for more information.\n", unknown);
    return kUserError;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUserError;
  }
  return guarded(chosen);
}
