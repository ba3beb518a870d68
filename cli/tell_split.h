// The output of a command about the choice of a split.
#pragma once

#include "cli/report.h"
#include "driver/compile.h"
#include "driver/split_report.h"

namespace braid::cli {

// Writes the choice as JSON, under "split": ranks, simulated time, bound and gap, and all candidates. Nothing
// if none was made.
void write_split(const SplitReport& split, Report& report);
// The same, and prints one line: how many of the allowed devices are used, and the times of larger numbers.
// Nothing if no split was asked for.
void tell_split(const CompileOptions& options, Report& report);

}  // namespace braid::cli
