// braid: argument parsing and printing; everything else is in the compiler and the runtime.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <string>

#include "cli/colour.h"
#include "cli/command.h"
#include "cli/command_tree.h"
#include "cli/exit_codes.h"
#include "cli/report.h"
#include "cli/usage.h"
#include "codegen/leftovers.h"
#include "harness/launched.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace {

using namespace braid::cli;

// Standard error may also be full or closed: that must not change how the program ends.
void complain(const std::string& text) { std::fputs(coloured_error(text).c_str(), stderr); }

// A closed descriptor would be reused for the next opened file, which would receive the printed text. This
// makes writes to it fail.
void keep_standard_descriptors() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

bool main_returns = false;

// A library may call exit(1), as libgomp does if it cannot start a thread: that is no verdict.
void ended_by_a_library() {
  if (main_returns) return;
  complain(
      fmt::format("error BR{:04}: a library has ended the process\n  hint: if it could not start a thread, "
                  "give fewer --threads, or raise the limit of processes\n",
                  braid::errors::kRankFailed));
  std::fflush(nullptr);
  ::_exit(kRunFailed);
}

// All printed text must have been written.
int finished(int code) {
  main_returns = true;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0 && std::cout.flush()) return code;
  complain(
      fmt::format("error BR{:04}: standard output cannot be written\n  hint: is the disk full, or was the "
                  "pipe closed?\n",
                  braid::errors::kCannotWrite));
  // A verdict that was not printed does not count.
  return code == kSuccess || code == kNegative ? kInputOutput : code;
}

// Prints the error; finished() does so where standard output is what failed.
int failed(const std::exception& error) {
  const ExitCode code = exit_code_of(error);
  if (dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr) {
    complain(fmt::format("error BR{:04}: {}\n  hint: check the path, its permissions and the disk\n",
                         braid::errors::kCannotWrite, error.what()));
  } else if (code == kInternal) {
    complain(fmt::format("internal error: {}\n  Please report this with the model or text that causes it.\n",
                         error.what()));
  } else if (dynamic_cast<const braid::harness::ReportedError*>(&error) == nullptr &&
             dynamic_cast<const std::system_error*>(&error) == nullptr) {
    complain(fmt::format("{}{}\n", braid::harness::rank_prefix(), error.what()));
  }
  return code;
}

int guarded(const std::function<int()>& action, Report& report) {
  try {
    return action();
  } catch (const std::bad_alloc&) {
    const braid::ir::UserError error(
        braid::errors::kNoMemory, {}, "there is not enough memory",
        "make the model or its bounds (--dim) smaller, or raise the limit of memory");
    report.failed(error);
    return failed(error);
  } catch (const std::exception& error) {
    report.failed(error);
    return failed(error);
  }
}

}  // namespace

int main(int argc, char** argv) {
  keep_standard_descriptors();
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error like any other
  std::signal(SIGXFSZ, SIG_IGN);  // and so is a file that reaches the limit of its size (ulimit -f)
  std::atexit(ended_by_a_library);
  braid::codegen::end_cleanly_on_signals();
  Report report;
  Invocation chosen;
  const std::unique_ptr<CLI::App> app = command_tree(chosen, report);
  try {
    app->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return finished(app->exit(error));  // --help, --version
    return finished(guarded([&]() -> int { throw usage_error(*app, error); }, report));
  }
  int code = guarded([&] { return chosen(report); }, report);
  const int written = guarded(
      [&] {
        report.finish(command_path(chosen_command(*app)).substr(app->get_name().size() + 1), code);
        return code;
      },
      report);
  return finished(written);
}
