// The optimisation problem that splitting a model comes down to (a cost-function network; compilers know it
// as PBQP). It knows neither ONNX nor meshes, so it can be tested alone and on published problems.
//
//   variables    x_v, the choice of each variable v;  usages u, each of one variable var(u)
//   domains      x_v in {0, ..., variables[v].size() - 1}
//   objective    min over x of  cost(x) = sum_v variables[v](x_v) + sum_e edges[e](x_from(e), x_to(e))
//   constraints  no term of cost(x) is kForbidden;
//                used_r(x) = sum over usages u in row r of bytes_u(x_var(u)) <= limits[r], for each row r
//   relaxation   L(p) = min over x of  cost(x) + sum_r p_r * (used_r(x) - limits[r]),  prices p_r >= 0:
//                drops the limits. p = 0 comes first (solve.cc), then subgradient steps (dual.h).
//   bound        Within the limits every p_r * (used_r(x) - limits[r]) <= 0, so L(p) is at most the optimum.
//                Moving costs between tables changes no cost(x), and a sum of tables is at least the sum
//                of their least entries: these sums bound L(p) from below. Branch and bound closes the gap.
//
// Costs are whole picoseconds, so sums are exact and equal on every machine. Effort is counted in computed
// table cells, never in seconds, so the same problem has the same solution on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "solver/cost_table.h"
#include "solver/ids.h"
#include "solver/row_sums.h"

namespace braid::solver {

// Costs of a pair of variables: costs[i * (choices of `to`) + j] if `from` takes its choice i and `to` its
// choice j. Several edges may connect the same variables; their costs add up.
struct Edge {
  VariableId from;
  VariableId to;
  CostTable costs;
};

// The bytes that a variable occupies, per choice, at least 0, in each of the rows. A row is a moment at which
// some set of tensors is alive; a tensor that lives for several moments is in a range of rows.
struct Usage {
  VariableId variable;
  IdVector<ChoiceId, std::int64_t> bytes;
  std::vector<RowRange> rows;  // ascending, disjoint
};

struct Problem {
  IdVector<VariableId, CostTable> variables;  // per variable: the cost of each choice, at least one choice
  IdVector<EdgeId, Edge> edges;
  std::vector<Usage> usages;
  IdVector<RowId, std::int64_t> limits;  // per memory row: the bytes that may be occupied
  // A permutation of the variables in which equal layers follow one another, each in the same order
  // (folded_problem.h).
  // Empty: by number.
  std::vector<VariableId> order;

  IdRange<ChoiceId> choices_of(VariableId variable) const {
    return {ChoiceId{0}, ir::id_at<ChoiceId>(variables[variable].size())};
  }
  // The cell of an edge's table for these choices of its ends.
  std::size_t cell_of(const Edge& edge, ChoiceId from, ChoiceId to) const {
    return ir::offset_of(from) * variables[edge.to].size() + ir::offset_of(to);
  }
};

struct SolveOptions {
  // The most table cells to compute in all. When they are spent, the best solution and bound so far are
  // returned.
  std::int64_t budget = std::int64_t{1} << 28;
  // The most cells of a table of the elimination, twice as many while limits are left out. A problem that
  // needs a larger one is solved by branch and bound.
  std::int64_t table = std::int64_t{1} << 22;
  // Only for problems with limits that need branch and bound. `known` is a first choice, which must keep the
  // limits. The search may end early at the first choice that is cheaper than `known` (any_cheaper) or costs
  // at most `enough`, if that is above 0.
  Assignment known = {};
  bool any_cheaper = false;
  Cost enough = 0;
};

enum class Status {
  kOptimal,     // choice and cost are the least possible, cost == bound
  kFeasible,    // choice keeps all limits, cost >= the optimum >= bound
  kInfeasible,  // no choice keeps all limits
  kUnknown,     // the budget ended before a choice was found that keeps all limits
};

struct Solution {
  Status status = Status::kUnknown;
  Assignment choice;  // empty unless optimal or feasible
  Cost cost = kForbidden;
  Cost bound = 0;             // no choice that keeps all limits costs less; kForbidden if infeasible
  std::int64_t cells = 0;     // table cells computed
  std::int64_t branches = 0;  // nodes of the search tree; 0 if elimination sufficed
  std::string method;         // for reports: "elimination", "branch and bound"

  bool proved() const { return status == Status::kOptimal || status == Status::kInfeasible; }
  bool feasible() const { return status == Status::kOptimal || status == Status::kFeasible; }
  // cost / bound - 1; 0 if proved, infinite if the bound is 0.
  double gap() const;
};

// The sum of the largest allowed costs of all tables.
__int128 largest_total(const Problem& problem);
// Throws UserError BR0480: the total exceeds kLargestTotal. The hint names the least divisor for the numbers
// of steps.
[[noreturn]] void refuse_costs(__int128 total);
// Returns the cheapest choice. Throws UserError BR0480 if the costs of the problem exceed kLargestTotal.
// Throws InternalError if the problem is malformed: a variable without choices, an edge or a usage that does
// not fit its variables or rows, a negative cost or size.
Solution solve(const Problem& problem, const SolveOptions& options = {});

// Returns the cost of a choice: kForbidden if it contains a forbidden combination or breaks a limit.
Cost price(const Problem& problem, const Assignment& choice);

}  // namespace braid::solver
