// Prices alternatives to the conversions of a plan (candidates.h).
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/parallel.h"
#include "ir/shared_pool.h"
#include "split/plan_space.h"

namespace braid::split {

namespace {

// Solves the problem again for each conversion, with its readers forbidden to take the result. Conversions of
// equal layers cost the same if taken otherwise.
void price_alternatives(const SplitSpace& space, const Graph& graph, const SplitChoice& choice,
                        const Problem& problem, const Restrict& restrict, FoundPlan& found) {
  std::map<std::string, VariableId> variable_of;
  for (const VariableId v : space.node_variables())
    variable_of[plan_name(graph, graph.nodes[space.node_of(v)])] = v;
  constexpr int kMostSolves = 24;
  std::vector<std::size_t> asked;
  for (std::size_t k = 0; k < found.conversions.size(); ++k) {
    PlanConversion& line = found.conversions[k];
    if (std::ranges::any_of(choice.conversions[k].readers, [&](const std::string& reader) {
          return reader.empty() || variable_of.count(reader) == 0;
        })) {
      line.unpriced = "what the program returns has one state";
    } else if (asked.size() == kMostSolves) {
      line.unpriced = fmt::format("after {} others", kMostSolves);
    } else {
      asked.push_back(k);
    }
  }
  ir::parallel_for(asked.size(), most_searches(), [&](std::size_t n) {
    const ChosenConversion& conversion = choice.conversions[asked[n]];
    PlanConversion& line = found.conversions[asked[n]];
    Problem other = problem;
    if (restrict) restrict(other);
    for (const std::string& reader : conversion.readers) {
      const VariableId v = variable_of.at(reader);
      const GraphNode& node = graph.nodes[space.node_of(v)];
      for (const ChoiceId c : space.choices_of(v)) {
        for (int i = 0; i < count_of(node.inputs); ++i) {
          if (node.inputs[i] == conversion.value && space.taken_state(v, c, i) == conversion.to)
            other.variables[v].forbid(c);
        }
      }
    }
    SolveOptions effort;
    if (restrict) effort.budget >>= 3;
    // Taken otherwise it cannot cost less than the cheapest plan.
    // Other variants weight collectives or shares in a way that `problem` does not.
    if (choice.solution.proved() && choice.solution.cost == found.predicted.ps)
      effort.enough = choice.solution.cost;
    const Solution solution = solve(other, effort);
    if (solution.feasible()) {
      line.otherwise = analysis::Time{solution.cost} - found.predicted;
    } else {
      line.unpriced = solution.status == Status::kInfeasible ? "no plan that is allowed takes it otherwise"
                                                             : "the search has found no plan that does";
    }
  });
}

}  // namespace

void price_alternatives(const Graph& graph, const Mesh& mesh,
                        const std::shared_ptr<const analysis::CostModel>& costs, const SearchOptions& options,
                        FoundPlan& plan) {
  const PlannedProgram program{&graph, costs, options};
  PlanSpace plans(program, mesh);
  plans.make_problem(true);
  if (!plans.problem) {
    for (PlanConversion& line : plan.conversions)
      line.unpriced = "its axes are too many choices together, and were chosen one after another";
    return;
  }
  Solution solution;
  solution.status = plan.proved ? Status::kOptimal : Status::kFeasible;
  solution.choice = plan.choice;
  solution.cost = plan.predicted.ps;
  const SplitChoice choice = plans.space.described(plans.costs(), {std::move(solution)});
  const ir::SharedPool shared(sizes_of_all(graph));
  price_alternatives(plans.space, graph, choice, *plans.problem, plans.restrict, plan);
}

}  // namespace braid::split
