// Converts between the costs of a pipeline (costs.h) and a search problem.
#pragma once

#include "pipeline/costs.h"
#include "pipeline/search_problem.h"

namespace braid::pipeline {

// The part of the costs that the search models; contention, slow-down, collectives of parameters and the
// discount of OVERLAP_F_B are left out. `byte_cap` limits activations per rank; it may be empty.
SearchProblem search_problem(const PipelineCosts& costs, RankOfStage rank_of_stage, std::int32_t ranks,
                             std::int32_t microbatches, bool split_backward,
                             PerRank<std::int64_t> byte_cap = {});

// Costs with which a simulation reproduces the problem's times. Delays become bytes over a link of one byte
// per picosecond, since two pairs of stages may lie on the same two ranks; so they are valid for makespans,
// not for memory.
PipelineCosts simulation_costs(const SearchProblem& problem);

}  // namespace braid::pipeline
