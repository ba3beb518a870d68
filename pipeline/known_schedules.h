// The published schedules that are defined for a search problem's sizes and placement: the baseline of the
// search.
#pragma once

#include "pipeline/search.h"

namespace braid::pipeline {

// In the order of generators(), without forward-only schedules and those with another placement. Throws what
// check(problem) throws.
std::vector<NamedSchedule> known_schedules(const SearchProblem& problem);

}  // namespace braid::pipeline
