// Random scheduling problems, a simulator that is slow and plain, and the optimum by exhaustive search:
// oracles for the fast ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/problem.h"

namespace braid::test {

struct RandomProblemOptions {
  int nodes = 9;
  int channels = 2;
  int fabrics = 2;
  bool contention = true;
  bool groups = true;  // nodes of several steps
  bool blocking = true;
  double edges = 0.3;  // probability of each dependency
  int max_time = 100;  // ps
  bool channel_order = false;
};
analysis::Problem random_problem(std::uint64_t seed, const RandomProblemOptions& options = {});
// A random order that keeps the dependencies.
analysis::Order random_order(const analysis::Problem& problem, std::uint64_t seed);

// In real numbers instead of whole picoseconds.
double slow_makespan(const analysis::Problem& problem, analysis::OrderView order);

// The shortest makespan of all orders, by branch and bound; for small problems.
struct Optimum {
  analysis::Time makespan;
  analysis::Order order;
};
Optimum exhaustive_optimum(const analysis::Problem& problem);

}  // namespace braid::test
