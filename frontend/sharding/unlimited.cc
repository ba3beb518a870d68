#include "frontend/sharding/unlimited.h"

#include <algorithm>
#include <map>

#include "ir/error.h"

namespace braid::frontend::sharding {

namespace {

// Reduces the network of the problem without the variables of the factors, and returns these over the choices that are left.
std::vector<Factor> reduce(Network& network, const Problem& problem, std::vector<Factor> factors) {
  for (const Factor& factor : factors) {
    for (const int v : factor.variables) network.fix(v);
  }
  network.reduce(kInside, true);
  if (network.infeasible) return {};
  // Of layers that have lost the same choices once.
  std::map<std::pair<const void*, std::vector<std::vector<int>>>, std::shared_ptr<const std::vector<Cost>>>
      known;
  for (Factor& factor : factors) {
    std::vector<std::vector<int>> labels;
    std::vector<std::size_t> sizes;
    for (const int v : factor.variables) {
      network.release(v);
      labels.push_back(network.nodes[v].labels);
      sizes.push_back(problem.variables[v].size());
    }
    std::shared_ptr<const std::vector<Cost>>& costs = known[{factor.costs.get(), labels}];
    if (!costs) {
      std::vector<Cost> left;
      for (const std::size_t cell : cells_of(labels, sizes)) left.push_back((*factor.costs)[cell]);
      costs = std::make_shared<const std::vector<Cost>>(std::move(left));
    }
    factor.costs = costs;
  }
  return factors;
}

// What is chosen outside of all layers of a relaxed problem, whose network it is left in with factors over it: the first cheapest one of
// those with these kinds (empty: any).
struct Outside {
  std::vector<int> choice;  // per copy: of what is left
  Cost cost = kInside;
};
Outside cheapest_outside(const FoldedProblem& folded, const Network& network, const std::vector<Factor>& left,
                         const std::vector<int>& kinds) {
  const std::vector<FoldedProblem::Copy>& copies = folded.copies();
  std::map<int, std::size_t> place;
  for (std::size_t k = 0; k < copies.size(); ++k) place[copies[k].variable] = k;
  Outside best;
  std::vector<int> choice(copies.size(), 0);
  const auto cost_of = [&] {
    Cost sum = network.constant;
    const auto add = [&](Cost cost) {
      sum = sum >= kForbiddenFrom || cost >= kForbiddenFrom ? kInside : sum + cost;
    };
    for (std::size_t k = 0; k < copies.size(); ++k) {
      const Node& node = network.nodes[copies[k].variable];
      if (!kinds.empty() && node.labels[choice[k]] != kinds[k]) return kInside;
      add(node.costs[choice[k]]);
    }
    for (const Pair& pair : network.pairs) {
      if (pair.alive)
        add(network.cost(pair, pair.from, choice[place.at(pair.from)], choice[place.at(pair.to)]));
    }
    for (const Factor& factor : left) {
      std::size_t cell = 0;
      for (const int v : factor.variables)
        cell = cell * network.nodes[v].costs.size() + static_cast<std::size_t>(choice[place.at(v)]);
      add((*factor.costs)[cell]);
    }
    return sum;
  };
  for (bool done = false; !done;) {
    if (const Cost cost = cost_of(); cost < best.cost) best = {choice, cost};
    std::size_t k = 0;
    while (k < choice.size() && ++choice[k] == network.size(copies[k].variable)) choice[k++] = 0;
    done = k == choice.size();
  }
  return best;
}

}  // namespace

std::optional<std::vector<int>> choose_with_copies(const Problem& problem, const FoldedProblem& folded,
                                                   std::int64_t table, std::int64_t& cells) {
  constexpr std::int64_t kMostKinds = 1 << 14;
  std::int64_t combinations = 1;
  for (const FoldedProblem::Copy& copy : folded.copies())
    combinations =
        std::min(kMostKinds + 1,
                 combinations * static_cast<std::int64_t>(folded.problem().variables[copy.variable].size()));
  if (combinations > kMostKinds) return std::nullopt;
  Network network(folded.problem(), 1);
  for (const FoldedProblem::Copy& copy : folded.copies()) network.fix(copy.variable);
  const std::vector<Factor> factors = reduce(network, folded.problem(), folded.factors());
  std::vector<Factor> left;
  const bool eliminated = !network.infeasible && network.eliminate(table, factors, &left);
  cells += network.cells;
  if (!eliminated || network.infeasible) return std::nullopt;
  const Outside least = cheapest_outside(folded, network, left, {});
  if (least.cost >= kForbiddenFrom) return std::nullopt;
  Outside outside = least;
  std::vector<int> kinds;  // of all layers
  for (;;) {
    std::vector<int> choice(folded.problem().variables.size(), -1);
    std::vector<int> own;
    for (std::size_t k = 0; k < folded.copies().size(); ++k) {
      const FoldedProblem::Copy& copy = folded.copies()[k];
      choice[copy.variable] = network.nodes[copy.variable].labels[outside.choice[k]];
      own.push_back(choice[copy.variable]);
    }
    network.restore(choice);
    std::vector<std::vector<int>> copied;
    std::vector<int> whole = folded.restore(choice, &copied);
    if (std::ranges::any_of(copied, [&](const std::vector<int>& one) { return one != copied[0]; }))
      return std::nullopt;
    if (copied[0] == own) {
      ir::internal_check(price(problem, whole) * folded.layers() == least.cost + folded.constant(),
                         "copies that agree cost something else than what they are of");
      return whole;
    }
    if (!kinds.empty()) return std::nullopt;
    kinds = copied[0];
    outside = cheapest_outside(folded, network, left, kinds);
    if (outside.cost != least.cost) return std::nullopt;
  }
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
  all.choice.emplace(small().variables.size(), -1);
  network.restore(*all.choice);
  if (all.folded) all.choice = all.folded->restore(*all.choice);
  return all;
}

}  // namespace braid::frontend::sharding
