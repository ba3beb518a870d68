// How the program ends: one table, which docs/errors.md shows. Commands throw numbered errors and return
// verdicts; the codes of both come from here.
#pragma once

#include <exception>
#include <span>
#include <string_view>

namespace braid::cli {

enum ExitCode : int {
  kSuccess = 0,
  kNegative = 1,      // a verdict: differs, deadlocks, a case failed
  kUsage = 2,         // the command line
  kRefused = 3,       // a model or another file
  kRunFailed = 4,     // lost rank, time-out, device, host compiler
  kInputOutput = 5,   // a file cannot be read or written
  kInternal = 70,     // EX_SOFTWARE
  kInterrupted = 130  // 128 + SIGINT: codegen/leftovers.h lets the signal end the process
};

struct ExitCodeRow {
  int code;
  std::string_view meaning;
};
std::span<const ExitCodeRow> exit_code_rows();

// The code of a numbered error, and of any error.
ExitCode exit_code_of(int number);
ExitCode exit_code_of(const std::exception& error);

}  // namespace braid::cli
