// Runs a list of passes over a schedule: the one place that times, verifies, prints, disables and bisects.
//
// After every pass that ran, unless told otherwise:
//   * the verifier finds nothing (ir/verifier.h);
//   * the collectives of every communicator stand in the order in which they stood before, unless the pass
//     declares that it may reorder them; with sends and receives, those of every queue do in any case
//     (ir/collective_order.h);
//   * a program with sends and receives that all ranks can run together (analysis/check) still is one;
//   * a pass that reports "unchanged" has left the text as it was (only with `check_unchanged`, which prints
//     twice).
// A violation is an InternalError that names the pass.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/schedule.h"
#include "passes/pass.h"

namespace braid::passes {

// The effect of one pass, for observers of a run.
struct PassRun {
  const Pass& pass;
  const ir::Schedule& before;
  const ir::Schedule& after;
  bool changed;
  bool reported;  // it left a report in the context
  const PassContext& context;
};

struct RunOptions {
  bool verify = true;
  bool check_unchanged = false;
  std::vector<std::string> disable;  // names of passes that are skipped; user error 540 for an unknown one
  std::vector<std::string> print_after;  // names, or "all"
  // Receives the text of `print_after`, which already has its heading.
  std::function<void(const std::string&)> print;
  // Only the first `bisect` passes of the list run (disabled ones are counted, so that numbers stay).
  std::optional<int> bisect;
  // Called after each pass that ran. If there are any, each pass costs a copy of the schedule.
  std::vector<std::function<void(const PassRun&)>> observers;
  // The context of the passes (passes/pass_context.h). Null: a default one for this run.
  PassContext* context = nullptr;
};

struct PassRecord {
  enum class Outcome : std::uint8_t { changed, unchanged, disabled, bisected };
  std::string name;
  Outcome outcome = Outcome::unchanged;
  double seconds = 0;         // the pass itself
  double verify_seconds = 0;  // the checks after it
};

// One record per pass of the list, in order.
std::vector<PassRecord> run_passes(ir::Schedule& schedule, std::span<const Pass> passes,
                                   const RunOptions& options = {});

// "  1  dead_code        0.12 ms" ..., with "(unchanged)", "(disabled)", "(not run: --bisect)".
std::string to_string(std::span<const PassRecord> records);

// All passes with descriptions and options, as `--list-passes` prints them.
std::string list_passes(const PassRegistry& registry = pass_registry());

}  // namespace braid::passes
