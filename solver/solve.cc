// Chooses the method that solves a problem, and prices choices (problem.h).
#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "solver/minimise.h"
#include "solver/problem.h"
#include "solver/search.h"
#include "solver/unlimited.h"

namespace braid::solver {

namespace {

void check_costs(const std::vector<Cost>& costs, const char* of, int index) {
  for (Cost cost : costs) ir::internal_check(cost >= 0, "{} {} has the negative cost {}", of, index, cost);
}

void check_problem(const Problem& problem) {
  const VariableId end = problem.variables.end_id();
  const auto is_variable = [&](VariableId v) { return v.valid() && v < end; };
  std::unordered_set<const void*> checked;
  const auto check = [&](const CostTable& table, const char* of, int index) {
    if (checked.insert(table.address()).second) check_costs(table.costs(), of, index);
  };
  for (const VariableId v : problem.variables.ids()) {
    ir::internal_check(!problem.variables[v].empty(), "variable {} has no choices", v.index);
    check(problem.variables[v], "variable", v.index);
  }
  for (const EdgeId e : problem.edges.ids()) {
    const Edge& edge = problem.edges[e];
    ir::internal_check(is_variable(edge.from) && is_variable(edge.to),
                       "edge {} connects {} and {} of {} variables", e.index, edge.from.index, edge.to.index,
                       end.index);
    const std::size_t cells = problem.variables[edge.from].size() * problem.variables[edge.to].size();
    ir::internal_check(edge.costs.size() == cells, "edge {} has {} costs, expected {}", e.index,
                       edge.costs.size(), cells);
    check(edge.costs, "edge", e.index);
  }
  __int128 bytes = 0;
  for (std::size_t u = 0; u < problem.usages.size(); ++u) {
    const Usage& usage = problem.usages[u];
    ir::internal_check(is_variable(usage.variable), "usage {} is of variable {} of {}", u,
                       usage.variable.index, end.index);
    ir::internal_check(usage.bytes.size() == problem.variables[usage.variable].size(),
                       "usage {} has {} sizes, expected {}", u, usage.bytes.size(),
                       problem.variables[usage.variable].size());
    for (std::int64_t size : usage.bytes)
      ir::internal_check(size >= 0, "usage {} has the negative size {}", u, size);
    bytes += *std::max_element(usage.bytes.begin(), usage.bytes.end());
    RowId behind{0};
    for (const RowRange& range : usage.rows) {
      ir::internal_check(
          range.begin >= behind && range.begin < range.end && range.end <= problem.limits.end_id(),
          "usage {} is in the rows {} to {} of {}", u, range.begin.index, range.end.index,
          problem.limits.size());
      behind = range.end;
    }
  }
  ir::internal_check(bytes <= std::numeric_limits<std::int64_t>::max() / 4,
                     "the sizes of all usages overflow");
}

void accept(Solution& solution, const Problem& problem, const Network& network) {
  solution.choice.assign(problem.variables.ids(), {});
  network.restore(solution.choice);
  solution.cost = price(problem, solution.choice);
  ir::internal_check(solution.cost != kForbidden, "elimination yields a choice that breaks a limit");
  solution.bound = solution.cost;
  solution.status = Status::kOptimal;
}

}  // namespace

double Solution::gap() const {
  if (proved()) return 0;
  if (!feasible() || bound <= 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(cost) / static_cast<double>(bound) - 1;
}

Cost price(const Problem& problem, const Assignment& choice) {
  ir::internal_check(choice.size() == problem.variables.size(), "{} choices for {} variables", choice.size(),
                     problem.variables.size());
  Cost sum = 0;
  for (const VariableId v : choice.ids()) {
    ir::internal_check(choice[v].valid() && ir::offset_of(choice[v]) < problem.variables[v].size(),
                       "variable {} has no choice {}", v.index, choice[v].index);
    if (problem.variables[v][choice[v]] == kForbidden) return kForbidden;
    sum += problem.variables[v][choice[v]];
  }
  for (const Edge& edge : problem.edges) {
    const Cost cost = edge.costs[problem.cell_of(edge, choice[edge.from], choice[edge.to])];
    if (cost == kForbidden) return kForbidden;
    sum += cost;
  }
  RowSums bytes(problem.limits.ids());
  for (const Usage& usage : problem.usages) {
    for (const RowRange& range : usage.rows) bytes.add(range, usage.bytes[choice[usage.variable]]);
  }
  const IdVector<RowId, std::int64_t> occupied = bytes.take();
  const bool kept = std::ranges::equal(occupied, problem.limits, std::less_equal());
  return kept ? sum : kForbidden;
}

Solution solve(const Problem& problem, const SolveOptions& options) {
  check_problem(problem);
  const __int128 largest = largest_total(problem);
  if (largest > kLargestTotal) refuse_costs(largest);
  const auto total = static_cast<Cost>(largest);
  Solution solution;
  solution.method = "elimination";
  if (std::any_of(problem.limits.begin(), problem.limits.end(),
                  [](std::int64_t limit) { return limit < 0; })) {
    solution.status = Status::kInfeasible;
    solution.bound = kForbidden;
    return solution;
  }
  const auto infeasible = [&](std::int64_t cells) {
    solution.status = Status::kInfeasible;
    solution.bound = kForbidden;
    solution.cells = cells;
    return solution;
  };
  // Room for messages and prices below kForbiddenFrom.
  Cost scale = Cost{1} << 20;
  while (scale > 1 && total > (Cost{1} << 54) / scale) scale /= 2;

  // Without the limits first: mostly they do not bind. Costs are scaled when bounds are needed.
  std::optional<Problem> copy;
  if (!problem.usages.empty()) copy = Problem{problem.variables, problem.edges, {}, {}, problem.order};
  const Problem& unlimited = copy ? *copy : problem;
  // Twice as large a table as a search would make again and again.
  const std::int64_t table = 2 * options.table;
  Eliminated all = eliminate(unlimited, total, table);
  solution.cells = all.cells;
  if (all.infeasible) return infeasible(all.cells);
  if (all.choice) {
    solution.bound = price(unlimited, *all.choice);
    ir::internal_check(solution.bound != kForbidden, "elimination yields a choice that is forbidden");
    if (!copy || price(problem, *all.choice) != kForbidden) {
      solution.choice = std::move(*all.choice);
      solution.cost = solution.bound;
      solution.status = Status::kOptimal;
      return solution;
    }
  }
  if (!copy) {
    all.left->multiply_costs(scale);
    SolveOptions complete = options;
    complete.enough = 0;  // is about problems with limits
    branch_and_bound(all.folded ? all.folded->problem() : problem, std::move(*all.left), scale, complete,
                     solution);
    if (all.folded && solution.bound != kForbidden) solution.bound += all.folded->constant();
    if (all.folded && solution.feasible()) {
      solution.choice = all.folded->restore(solution.choice);
      solution.cost = price(problem, solution.choice);
    }
    return solution;
  }
  Network network(problem, scale);
  if (!network.infeasible) network.reduce(kInside, true);
  if (network.infeasible) return infeasible(solution.cells + network.cells);
  network.cells += solution.cells;
  if (network.eliminate(options.table)) {
    solution.cells = network.cells;
    if (network.infeasible) return infeasible(network.cells);
    accept(solution, problem, network);
    return solution;
  }
  if (!options.known.empty()) {
    solution.choice = options.known;
    solution.cost = price(problem, options.known);
    ir::internal_check(solution.cost != kForbidden, "the known choice breaks a limit");
    solution.status = Status::kFeasible;
  }
  branch_and_bound(problem, std::move(network), scale, options, solution);
  return solution;
}

__int128 largest_total(const Problem& problem) {
  __int128 total = 0;
  std::unordered_map<const void*, Cost> known;
  const auto largest = [&](const CostTable& table) {
    const auto [entry, fresh] = known.try_emplace(table.address(), 0);
    if (fresh) entry->second = largest_allowed(table.data(), table.size());
    return entry->second;
  };
  for (const CostTable& costs : problem.variables) total += largest(costs);
  for (const Edge& edge : problem.edges) total += largest(edge.costs);
  return total;
}

void refuse_costs(__int128 total) {
  // The search also asks for the cheapest plan if collectives took twice their time.
  const auto times = static_cast<std::int64_t>((2 * total + kLargestTotal - 1) / kLargestTotal);
  ir::user_error(
      errors::kSplitCost, {}, fmt::format("the costs of splitting add up to more than {} ps", kLargestTotal),
      fmt::format("divide the numbers of steps (--at, --with) by {} or more; without steps, check the "
                  "speeds of the machine's description",
                  times));
}

}  // namespace braid::solver
