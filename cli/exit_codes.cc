#include "cli/exit_codes.h"

#include <cstdio>
#include <filesystem>
#include <new>
#include <system_error>

#include "harness/launched.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "runtime/program.h"

namespace braid::cli {
namespace {

constexpr ExitCodeRow kRows[] = {
    {kSuccess, "success"},
    {kNegative, "a negative verdict: results differ, ranks can deadlock, a case failed, no schedule exists"},
    {kUsage, "usage: the command line, environment variables, or how ranks were started"},
    {kRefused, "a model or another file was refused"},
    {kRunFailed, "a run failed: a lost rank, a time-out, a device, a host compiler"},
    {kInputOutput, "a file is missing, or cannot be read or written"},
    {kInternal, "an internal error"},
    {kInterrupted, "interrupted by SIGINT; 128 + N for another signal N"},
};

// All other numbers: kRefused.
struct Numbers {
  int first, last;
  ExitCode code;
};
constexpr Numbers kNumbers[] = {
    {1, 1, kInputOutput},      // a file cannot be read
    {3, 4, kUsage},            // options, no input file
    {6, 6, kUsage},            // an input is missing
    {7, 7, kRunFailed},        // a rank failed
    {10, 10, kInputOutput},    // a file cannot be written
    {11, 12, kUsage},          // started ranks, environment variables
    {13, 13, kRunFailed},      // no GPU
    {14, 14, kUsage},          // the command line is not understood
    {15, 15, kInputOutput},    // a file is in the way
    {18, 19, kRunFailed},      // ONNX Runtime as a reference, memory
    {201, 201, kInputOutput},  // external data is missing
    {205, 205, kInputOutput},  // a rank's file is missing
    {310, 313, kUsage},        // --dim, --alias, --bind
    {401, 401, kUsage},        // --ranks
    {484, 484, kUsage},        // --devices, --tp, --plan
    {540, 544, kUsage},        // --passes, --plugin
    {553, 553, kUsage},        // --machine
    {571, 572, kUsage},        // options of passes
    {585, 588, kUsage},        // --force-kernel
    {603, 603, kRunFailed},    // host compiler
    {604, 604, kInputOutput},  // runtime library
    {643, 644, kRunFailed},    // nvcc
    {711, 711, kRunFailed},    // a step
    {722, 722, kUsage},        // number of ranks
    {725, 726, kRunFailed},    // a step, a collective
    {806, 809, kUsage},        // placement, channels, schedule and its sizes
    {837, 839, kNegative},     // a schedule hangs, or mixes up messages
    {840, 840, kUsage},        // options of lowering
    {862, 862, kNegative},     // a simulated schedule hangs
    {880, 880, kUsage},        // the problem of a search
    {881, 883, kNegative},     // no schedule
    {900, 901, kNegative},     // ranks differ, or hang
};

}  // namespace

std::span<const ExitCodeRow> exit_code_rows() { return kRows; }

ExitCode exit_code_of(int number) {
  for (const Numbers& n : kNumbers) {
    if (n.first <= number && number <= n.last) return n.code;
  }
  return kRefused;
}

ExitCode exit_code_of(const std::exception& error) {
  if (const auto* user = dynamic_cast<const ir::UserError*>(&error)) return exit_code_of(user->code());
  if (const auto* program = dynamic_cast<const rt::ProgramError*>(&error))
    return exit_code_of(program->code());
  if (const auto* reported = dynamic_cast<const harness::ReportedError*>(&error)) {
    try {
      std::rethrow_exception(reported->cause());
    } catch (const std::exception& cause) {
      return exit_code_of(cause);
    }
  }
  if (dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr) return kInputOutput;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return exit_code_of(errors::kNoMemory);
  // fmt::print throws this when it cannot write.
  if (dynamic_cast<const std::system_error*>(&error) != nullptr &&
      (std::ferror(stdout) != 0 || std::ferror(stderr) != 0)) {
    return kInputOutput;
  }
  return kInternal;
}

}  // namespace braid::cli
