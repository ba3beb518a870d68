// Branch and bound over a network whose elimination is too large or whose memory is limited.
#pragma once

#include "solver/network.h"

namespace braid::solver {

// Solves what is left of `root`, which `scale` made. `solution` holds the best choice known before, if any, and receives
// choice, cost, bound, status, cells and branches. It may end before that where options say what is enough.
void branch_and_bound(const Problem& problem, Network root, Cost scale, const SolveOptions& options,
                      Solution& solution);

}  // namespace braid::solver
