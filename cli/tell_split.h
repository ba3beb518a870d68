// What a command says about the choice of a split.
#pragma once

#include "cli/report.h"
#include "driver/compile.h"

namespace braid::cli {

// One line: how many devices of those allowed, and what the other numbers would take. Nothing if no split was asked for.
void tell_split(const CompileOptions& options, Report& report);

}  // namespace braid::cli
