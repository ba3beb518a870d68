// The whole way from a model to a program, in one place.
//
//   choose a split                     choose_split (driver/split.h), if the model is to be split
//   load, check, normalise, lower      import_program (driver/import.h)
//   fuse, legalise, schedule, plan     optimise (driver/optimise.h)
//   emit, build                        emit_program and build_program, or StagedProgram (driver/emit.h)
//
// Every arrow is one function with one input and one output; `compile` is their sequence. None of them calls
// `compile` or `lower`.
#pragma once

#include <string>
#include <vector>

#include "driver/compile_options.h"
#include "driver/emit.h"
#include "driver/optimise.h"
#include "ir/schedule.h"
#include "passes/runner.h"

namespace braid {

struct SplitReport;

// Chooses a split if options.split asks for one, and imports the model: the schedule in the order of the
// graph, nothing fused or planned.
ir::Schedule lower(const CompileOptions& options);
// The same with a report of the caller instead of options.split_report.
ir::Schedule lower(const CompileOptions& options, SplitReport& report);

struct CompileResult {
  ir::Schedule schedule;
  std::vector<passes::PassRecord> passes;
  std::vector<std::string> files;
};
CompileResult compile(const CompileOptions& options);

}  // namespace braid
