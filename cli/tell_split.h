// What a command says about the choice of a split.
#pragma once

#include "cli/report.h"
#include "driver/compile.h"
#include "driver/split.h"

namespace braid::cli {

// The choice as JSON, under "split": ranks, simulated time, bound and gap, what was tried. Nothing if none was made.
void write_split(const SplitReport& split, Report& report);
// The same, and one line: how many devices of those allowed, and what the other numbers would take. Nothing if no split was
// asked for.
void tell_split(const CompileOptions& options, Report& report);

}  // namespace braid::cli
