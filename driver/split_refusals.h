// Splits that are refused, with what would do instead.
#pragma once

#include "driver/split_programs.h"
#include "driver/split_report.h"
#include "driver/split_search.h"

namespace braid {

// The search has found nothing that can be compiled. Throws BR0488 if a plan was refused because of the limit
// of memory, with a number of ranks that would do, if any; else BR0484.
[[noreturn]] void refuse_all(SplitPrograms& programs, const SplitSearch& search, const SplitReport& report);
// Throws BR0489 if the chosen plan computes an operator without a rule on every rank, or if one of its
// conversions takes more than conversion_share percent of the step.
void require_strict(const CompileOptions& options, const SplitReport& report);

}  // namespace braid
