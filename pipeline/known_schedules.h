// The published schedules that are defined for a search problem's sizes and placement: what the search is
// held against.
#pragma once

#include "pipeline/search.h"

namespace braid::pipeline {

// Throws what check(problem) throws. In the order of generators(). Without the forward-only ones, and without
// those that place stages otherwise.
std::vector<NamedSchedule> known_schedules(const SearchProblem& problem);

}  // namespace braid::pipeline
