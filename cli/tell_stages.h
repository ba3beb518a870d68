// The output of braid explain about pipelines of a model: where it would be cut, and the time of steps in
// flight together.
#pragma once

#include <vector>

#include "cli/report.h"
#include "split/stages.h"

namespace braid::cli {

// As text, and as JSON under "stages". Nothing if there are none.
void tell_stages(const std::vector<split::FoundStages>& all, Report& report);

}  // namespace braid::cli
