// braid: argument parsing and printing; everything else is in the compiler and the runtime.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "cli/command.h"
#include "cli/errors.h"
#include "cli/launched.h"
#include "codegen/leftovers.h"
#include "ir/error.h"
#include "runtime/program.h"

namespace {

constexpr int kUserError = 1;
constexpr int kInternalError = 70;  // EX_SOFTWARE

// Standard error may also be full or closed: that must not change how the program ends.
void report(const std::string& text) { std::fputs(text.c_str(), stderr); }

int internal_error(const std::exception& error) {
  report(fmt::format("internal error: {}\n  Please report this with the model or text that causes it.\n",
                     error.what()));
  return kInternalError;
}

// A closed descriptor would be reused for the next opened file, which would receive the printed text. This
// makes writes to it fail.
void keep_standard_descriptors() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

// All printed text must have been written.
int finished(int code) {
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0 && std::cout.flush()) return code;
  report(
      fmt::format("error BR{:04}: standard output cannot be written\n  hint: is the disk full, or was the "
                  "pipe closed?\n",
                  braid::cli::kCannotWrite));
  return code == 0 ? kUserError : code;
}

int guarded(const braid::cli::Invocation& action) {
  try {
    return action();
  } catch (const braid::ir::UserError& error) {
    report(fmt::format("{}{}\n", braid::cli::rank_prefix(), error.what()));
    return kUserError;
  } catch (const braid::rt::ProgramError& error) {
    report(fmt::format("{}{}\n", braid::cli::rank_prefix(), error.what()));
    return kUserError;
  } catch (const braid::cli::ReportedError&) {
    return kUserError;
  } catch (const std::filesystem::filesystem_error& error) {
    report(fmt::format("error BR{:04}: {}\n  hint: check the path, its permissions and the disk\n",
                       braid::cli::kCannotWrite, error.what()));
    return kUserError;
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0 || std::ferror(stderr) != 0) return kUserError;  // see finished
    return internal_error(error);
  } catch (const std::exception& error) {
    return internal_error(error);
  }
}

// "there is no command 'x'" with the valid ones if an argument is in a command's place; CLI11 would only say
// that a command is required. Empty if that is not the error.
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
  keep_standard_descriptors();
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error like any other
  braid::codegen::end_cleanly_on_signals();
  CLI::App app{"Compiles ONNX graphs with collectives into C++ or CUDA+NCCL programs.", "braid"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "braid 0.1.0\nCPU programs: " BRAID_ONEDNN_VERSION);
  app.set_help_all_flag("--help-all", "Print the help of all subcommands");

  braid::cli::Invocation chosen;
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
    if (unknown.empty()) return finished(app.exit(error) == 0 ? 0 : kUserError);
    report(unknown + "\nRun with --help for more information.\n");
    return kUserError;
  } catch (const CLI::ParseError& error) {
    return finished(app.exit(error) == 0 ? 0 : kUserError);
  }
  return finished(guarded(chosen));
}
