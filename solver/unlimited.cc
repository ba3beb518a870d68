#include "solver/unlimited.h"

#include <algorithm>
#include <map>

#include "ir/error.h"

namespace braid::solver {

namespace {

// The factors over the choices of the problem's variables that are left in the network.
std::vector<Factor> of_choices_left(const Network& network, const Problem& problem,
                                    std::vector<Factor> factors) {
  // Layers that have lost the same choices share one table.
  std::map<std::pair<const void*, std::vector<std::vector<ChoiceId>>>,
           std::shared_ptr<const std::vector<Cost>>>
      known;
  for (Factor& factor : factors) {
    std::vector<Labels> labels;
    std::vector<std::vector<ChoiceId>> key;
    std::vector<std::size_t> sizes;
    for (const VariableId v : factor.variables) {
      labels.push_back(network.nodes[v].labels);
      key.push_back(labels.back().all());
      sizes.push_back(problem.variables[v].size());
    }
    std::shared_ptr<const std::vector<Cost>>& costs = known[{factor.costs.get(), std::move(key)}];
    if (!costs) {
      std::vector<Cost> left;
      for (const std::size_t cell : cells_of(labels, sizes)) left.push_back((*factor.costs)[cell]);
      costs = std::make_shared<const std::vector<Cost>>(std::move(left));
    }
    factor.costs = costs;
  }
  return factors;
}

// Reduces the network of the problem, but keeps the variables of the factors. Returns the factors over the
// choices that are left.
std::vector<Factor> reduce(Network& network, const Problem& problem, std::vector<Factor> factors) {
  for (const Factor& factor : factors) {
    for (const VariableId v : factor.variables) network.fix(v);
  }
  network.reduce(kInside, true);
  if (network.infeasible) return {};
  for (const Factor& factor : factors) {
    for (const VariableId v : factor.variables) network.release(v);
  }
  return of_choices_left(network, problem, std::move(factors));
}

}  // namespace

std::optional<Assignment> choose_with_copies(const Problem& problem, const FoldedProblem& folded,
                                             std::int64_t table, std::int64_t& cells) {
  // Tries the cheapest choices outside first, then those on which the layers agree.
  std::vector<ChoiceId> agreed;
  Cost least = 0;
  for (int round = 0; round < 2; ++round) {
    Network network = folded.outside();
    for (const VariableId v : network.nodes.ids()) network.release(v);
    for (std::size_t k = 0; k < agreed.size(); ++k) {
      const VariableId v = folded.copies()[k].variable;
      const std::optional<std::size_t> place = network.nodes[v].labels.place_of(agreed[k]);
      if (!place) return std::nullopt;
      network.keep_choices(v, {*place});
    }
    const bool eliminated =
        !network.infeasible &&
        network.eliminate(table, of_choices_left(network, folded.problem(), folded.factors()));
    cells += network.cells - folded.outside().cells;
    if (!eliminated || network.infeasible) return std::nullopt;
    if (round == 0) least = network.constant;
    if (network.constant != least) return std::nullopt;
    Assignment choice(folded.problem().variables.ids());
    network.restore(choice);
    std::vector<std::vector<ChoiceId>> copied;
    Assignment whole = folded.restore(choice, &copied);
    if (std::ranges::any_of(copied, [&](const std::vector<ChoiceId>& one) { return one != copied[0]; }))
      return std::nullopt;
    agreed = copied[0];
    const bool chosen =
        std::ranges::equal(agreed, folded.copies(), {}, {},
                           [&](const FoldedProblem::Copy& copy) { return choice[copy.variable]; });
    if (!chosen) continue;
    ir::internal_check(price(problem, whole) * folded.layers() == least + folded.constant(),
                       "copies that agree cost something else than what they are of");
    return whole;
  }
  return std::nullopt;
}

Eliminated eliminate(const Problem& problem, Cost total, std::int64_t table) {
  Eliminated all;
  all.folded = FoldedProblem::with_copies(problem, table, total);
  if (all.folded && !all.folded->copies().empty()) {
    all.cells = all.folded->cells();
    all.choice = choose_with_copies(problem, *all.folded, table, all.cells);
    if (all.choice) return all;
    all.folded.reset();
  }
  if (!all.folded) all.folded = FoldedProblem::of(problem, table);
  const auto small = [&]() -> const Problem& { return all.folded ? all.folded->problem() : problem; };
  if (all.folded) all.cells += all.folded->cells();
  Network network(small(), 1);
  // Layers at the ends, which are not folded, have most tables of the others.
  if (all.folded) network.share_results(all.folded->inside());
  const std::vector<Factor> factors =
      reduce(network, small(), all.folded ? all.folded->factors() : std::vector<Factor>());
  bool eliminated = !network.infeasible && network.eliminate(table, factors);
  all.cells += network.cells;
  if (!network.infeasible && !eliminated && !factors.empty()) {
    // A search knows pairs only.
    all.folded = FoldedProblem::of(problem);
    network = Network(small(), 1);
    network.reduce(kInside, true);
    eliminated = !network.infeasible && network.eliminate(table);
    all.cells += network.cells;
  }
  all.infeasible = network.infeasible;
  if (all.infeasible) return all;
  if (!eliminated) {
    all.left.emplace(std::move(network));
    all.left->cells = all.cells;
    return all;
  }
  all.choice.emplace(small().variables.ids());
  network.restore(*all.choice);
  if (all.folded) all.choice = all.folded->restore(*all.choice);
  return all;
}

}  // namespace braid::solver
