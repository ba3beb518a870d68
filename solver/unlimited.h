// Solves problems without limits of memory by elimination. Equal layers are folded (folded_problem.h), where
// possible with copies of what all of them see.
#pragma once

#include <cstdint>
#include <optional>

#include "solver/folded_problem.h"
#include "solver/network.h"

namespace braid::solver {

// Returns the cheapest choice if it follows from a relaxed problem: the layers' copies of what is outside
// agree with each other and with the choice outside, at no additional cost. Adds to `cells`.
std::optional<Assignment> choose_with_copies(const Problem& problem, const FoldedProblem& folded,
                                             std::int64_t table, std::int64_t& cells);

// The result of eliminating a problem without limits.
struct Eliminated {
  bool infeasible = false;
  std::optional<Assignment> choice;  // the cheapest one
  // Otherwise what a search is to solve.
  std::optional<FoldedProblem> folded;
  std::optional<Network> left;
  std::int64_t cells = 0;
};

// The problem's largest costs of all tables add up to `total`. Tables of at most `table` cells.
Eliminated eliminate(const Problem& problem, Cost total, std::int64_t table);

}  // namespace braid::solver
