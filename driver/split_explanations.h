// Explains a choice (SplitOptions::explain): alternatives to the chosen plan, and pipelines.
#pragma once

#include <optional>

#include "driver/split_programs.h"
#include "driver/split_report.h"
#include "driver/split_trials.h"

namespace braid {

// Adds alternatives and flips of the chosen plan to the report. They take many searches, so other candidates
// have none. `search` found the plan.
void explain_choice(SplitPrograms& programs, const std::optional<FoundSplit::Search>& search,
                    SplitReport& report);
// Adds pipelines of all numbers of stages that divide SplitOptions::devices.
void find_pipelines(SplitPrograms& programs, SplitReport& report);

}  // namespace braid
