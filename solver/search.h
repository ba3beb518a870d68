// Branch and bound over a network whose elimination is too large or whose memory is limited.
#pragma once

#include "solver/network.h"

namespace braid::solver {

// Solves what is left of `root`, which was made with `scale`. `solution` holds the best choice known before,
// if any, and receives choice, cost, bound, status, cells and branches. The search ends early where options
// say what is enough.
void branch_and_bound(const Problem& problem, Network root, Cost scale, const SolveOptions& options,
                      Solution& solution);

}  // namespace braid::solver
