// Raises the lower bound of a network by moving costs between its tables (sequential tree-reweighted message
// passing, Kolmogorov 2006: the bound of the local polytope or near it) and by prices of memory (Lagrangian
// relaxation with averaged subgradients).
#pragma once

#include "solver/network.h"

namespace braid::solver {

struct AscentOptions {
  int sweeps = 10;
  std::int64_t cells = std::int64_t{1} << 60;  // stop after so many table cells
  Cost target = kInside;                       // scaled: stop when the bound reaches this
  Cost reach = kInside;    // scaled: what the bound is expected to become at most, for the length of steps
  int patience = 1 << 30;  // stop after so many sweeps without a gain of 1/100,000 of the distance to `reach`
};

// Raises network.constant, which is a lower bound before and after. `prices` holds the prices that are
// already part of the costs and receives the new ones. Requires a network as reduce leaves it.
void ascend(Network& network, IdVector<RowId, std::int64_t>& prices, const AscentOptions& options);

}  // namespace braid::solver
