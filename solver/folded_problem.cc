#include "solver/folded_problem.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "solver/equal_layers.h"

namespace braid::solver {

namespace {

// The choices of a variable as the variables inside of a layer see them. Choices of one kind cost these the
// same.
struct Kinds {
  IdVector<ChoiceId, ChoiceId> of;     // per choice: its kind
  IdVector<ChoiceId, ChoiceId> first;  // per kind: a choice

  Kinds() = default;
  Kinds(const Problem& problem, const Places& places, Place place, const std::vector<Place>& inside) {
    const std::size_t count = places.costs(place).size();
    std::vector<std::vector<Cost>> seen(count);
    for (const Places::End& end : places.ends(place)) {
      if (!std::ranges::binary_search(inside, end.other)) continue;
      const CostTable& table = problem.edges[end.edge].costs;
      const std::size_t others = table.size() / count;
      for (std::size_t c = 0; c < count; ++c) {
        for (std::size_t j = 0; j < others; ++j)
          seen[c].push_back(end.from ? table[j * count + c] : table[c * others + j]);
      }
    }
    std::map<std::vector<Cost>, ChoiceId> known;
    for (std::vector<Cost>& costs : seen) {
      const auto [entry, fresh] = known.try_emplace(std::move(costs), first.end_id());
      if (fresh) first.push_back(of.end_id());
      of.push_back(entry->second);
    }
  }

  // The rows of the kinds, or the columns.
  CostTable picked(const CostTable& table, std::size_t columns, bool rows) const {
    std::vector<Cost> costs;
    if (rows) {
      for (const ChoiceId c : first) {
        for (std::size_t j = 0; j < columns; ++j) costs.push_back(table[ir::offset_of(c) * columns + j]);
      }
      return costs;
    }
    for (std::size_t i = 0; i < table.size() / columns; ++i) {
      for (const ChoiceId c : first) costs.push_back(table[i * columns + ir::offset_of(c)]);
    }
    return costs;
  }
  // From each choice to its own kind.
  CostTable table() const {
    std::vector<Cost> costs;
    for (const ChoiceId own : of) {
      for (const ChoiceId kind : first.ids()) costs.push_back(kind == own ? 0 : kForbidden);
    }
    return costs;
  }
};

// The costs over all choices of variables in `problem` of which some are left in the network.
std::shared_ptr<const std::vector<Cost>> with_all_choices(const Factor& factor, const Network& network,
                                                          const Problem& problem) {
  std::vector<Labels> labels;
  std::vector<std::size_t> sizes;
  std::size_t cells = 1;
  for (const VariableId v : factor.variables) {
    labels.push_back(network.nodes[v].labels);
    sizes.push_back(problem.variables[v].size());
    cells *= sizes.back();
  }
  auto all = std::make_shared<std::vector<Cost>>(cells, kInside);
  std::size_t next = 0;
  for (const std::size_t cell : cells_of(labels, sizes)) (*all)[cell] = (*factor.costs)[next++];
  return all;
}

void add(Cost& sum, Cost cost) { sum = sum == kForbidden || cost == kForbidden ? kForbidden : sum + cost; }
Cost allowed(Cost cost) { return cost >= kForbiddenFrom ? kForbidden : cost; }

// Returns a lower bound on the cost of each choice of the variable with all that it reaches through at most
// `pairs` pairs, except through the pair `not_through`. Each path counts by itself. Forbidden costs become
// kInside; allowed sums are capped below kForbiddenFrom.
std::vector<Cost> least_around(const Network& network, VariableId variable, int pairs,
                               PairId not_through = {}) {
  static constexpr Cost kMost = kForbiddenFrom - 1;
  const auto add = [](Cost& sum, Cost cost) {
    sum = sum >= kForbiddenFrom || cost >= kForbiddenFrom ? kInside : std::min(sum + cost, kMost);
  };
  std::vector<Cost> least = network.nodes[variable].costs;
  for (const PairId p : network.nodes[variable].pairs) {
    if (pairs == 0 || p == not_through) continue;
    const Pair& pair = network.pairs[p];
    const std::vector<Cost> beyond = least_around(network, pair.other(variable), pairs - 1, p);
    for (std::size_t c = 0; c < least.size(); ++c) {
      Cost best = kInside;
      for (std::size_t j = 0; j < beyond.size(); ++j) {
        Cost sum = network.cost(pair, variable, c, j);
        add(sum, beyond[j]);
        best = std::min(best, sum);
      }
      add(least[c], best);
    }
  }
  return least;
}

// Takes a lower bound on what each choice costs within two pairs, minus the least of these, off the
// variable's own costs, and returns it. Any amount would give a valid relaxation; the nearer it is to the
// whole cost, the more copies agree. kForbidden: the choice is not allowed.
IdVector<ChoiceId, Cost> take_costs_of(Network& network, VariableId variable, IdRange<ChoiceId> choices) {
  constexpr int kPairs = 2;
  constexpr Cost kMost = Cost{1} << 58;  // far below what is forbidden
  Node& node = network.nodes[variable];
  std::vector<Cost> least = least_around(network, variable, kPairs);
  const Cost base = *std::min_element(least.begin(), least.end());
  Cost most = 0;
  for (Cost& cost : least) {
    if (cost >= kForbiddenFrom) continue;
    cost = std::min(cost, base + kMost);
    most = std::max(most, cost - base);
  }
  // Costs stay at least 0.
  network.constant -= most;
  IdVector<ChoiceId, Cost> all(choices, kForbidden);
  for (std::size_t c = 0; c < least.size(); ++c) {
    const bool forbidden = least[c] >= kForbiddenFrom;
    if (!forbidden) all[node.labels[c]] = least[c] - base;
    node.costs[c] = forbidden ? kInside : node.costs[c] + most - (least[c] - base);
  }
  return all;
}

}  // namespace

std::optional<FoldedProblem> FoldedProblem::of(const Problem& problem, std::int64_t table) {
  return folded(problem, table, std::nullopt);
}
std::optional<FoldedProblem> FoldedProblem::with_copies(const Problem& problem, std::int64_t table,
                                                        Cost total) {
  return folded(problem, table, total);
}

// Makes a folded problem, step by step. Variables of `one`, a layer with what it touches, have numbers of
// their own; those of all other problems are named `rest` or by places.
class FoldedProblem::Folding {
 public:
  Folding(const Problem& problem, const Places& places, const EqualLayers& layers)
      : problem_(problem), places_(places), layers_(layers), model_(layers.layers[0]) {}

  std::optional<FoldedProblem> run(std::int64_t table, std::optional<Cost> copied_total) {
    make_one();
    make_rest();
    const auto to_copy = std::ranges::count_if(kind_of_, &VariableId::valid);
    copied_ = copied_total.has_value() && to_copy > 0;
    scale_ = copied_ ? std::ssize(layers_.layers) : 1;
    constexpr Cost kMostTotal = Cost{1} << 58;
    if (copied_ && *copied_total > kMostTotal / scale_ / (2 + to_copy)) return std::nullopt;
    Network& network = folded_.inside_.emplace(one_, scale_);
    fix_touched(network);
    if (copied_) make_outside(network);
    network.reduce(kInside, true);
    std::vector<Factor> left;
    if (!network.infeasible) network.eliminate(table, {}, &left);
    if (network.infeasible) return std::nullopt;  // the caller solves the whole problem, which reports it
    if (copied_) {
      if (std::ranges::any_of(network.nodes, [](const Node& node) { return node.alive && !node.fixed; }))
        return std::nullopt;
      take_factors(network, left);
    }
    for (Factor& factor : left) factor.costs = with_all_choices(factor, network, one_);
    add_layers(network, left);
    return std::move(folded_);
  }

 private:
  // Variables outside of all layers have their kinds as choices; these and borders have no costs.
  void make_one() {
    touched_.assign(model_.inside.begin(), model_.inside.end());
    for (const Place p : model_.inside) {
      for (const Places::End& end : places_.ends(p)) touched_.push_back(end.other);
    }
    std::ranges::sort(touched_);
    touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
    kinds_.assign(touched_.ids(), {});
    std::map<Place, VariableId> local;
    for (const VariableId k : touched_.ids()) {
      const Place p = touched_[k];
      local[p] = k;
      own_.push_back(std::ranges::binary_search(model_.inside, p) ? 1 : 0);
      if (layers_.outside(p)) kinds_[k] = Kinds(problem_, places_, p, model_.inside);
      const CostTable& costs = places_.costs(p);
      const std::size_t choices = layers_.outside(p) ? kinds_[k].first.size() : costs.size();
      one_.variables.push_back(own_[k] != 0 ? costs : CostTable(std::vector<Cost>(choices, 0)));
    }
    for (const Place p : model_.inside) {
      for (const Places::End& end : places_.ends(p)) {
        const Edge& edge = problem_.edges[end.edge];
        const VariableId other = local.at(end.other);
        if (own_[other] != 0 && end.from) continue;  // seen from its other end
        CostTable costs = edge.costs;
        if (!kinds_[other].first.empty())
          costs = kinds_[other].picked(costs, problem_.variables[edge.to].size(), end.from);
        one_.edges.push_back(
            {local.at(places_.of(edge.from)), local.at(places_.of(edge.to)), std::move(costs)});
      }
    }
  }

  // Everything that is inside of no layer as it was. Each variable outside of all layers gets a second
  // variable, whose choices are its kinds.
  void make_rest() {
    IdVector<Place, char> inside(places_.ids(), 0);
    for (const EqualLayers::Layer& layer : layers_.layers) {
      for (const Place p : layer.inside) inside[p] = 1;
    }
    Problem& rest = folded_.problem_;
    folded_.number_.assign(problem_.variables.ids(), {});
    for (const Place p : places_.ids()) {
      if (inside[p] != 0) continue;
      folded_.number_[places_.variable(p)] = rest.variables.end_id();
      rest.variables.push_back(places_.costs(p));
    }
    for (const Edge& edge : problem_.edges) {
      const VariableId a = folded_.number_[edge.from], b = folded_.number_[edge.to];
      if (a.valid() && b.valid()) rest.edges.push_back({a, b, edge.costs});
    }
    kind_of_.assign(touched_.ids(), {});
    for (const VariableId k : touched_.ids()) {
      if (kinds_[k].first.empty()) continue;
      kind_of_[k] = rest.variables.end_id();
      rest.variables.emplace_back(std::vector<Cost>(kinds_[k].first.size(), 0));
      rest.edges.push_back({rest_of(touched_[k]), kind_of_[k], kinds_[k].table()});
    }
  }

  VariableId rest_of(Place p) const { return folded_.number_[places_.variable(p)]; }

  void fix_touched(Network& network) {
    for (const VariableId k : touched_.ids()) {
      if (own_[k] != 0) continue;
      if (copied_ && kind_of_[k].valid()) {
        folded_.copies_.push_back({kind_of_[k], k});
      } else {
        network.fix(k);
      }
    }
  }

  // Each layer gets an equal share of the costs of what is copied.
  void make_outside(Network& network) {
    Network& outside = folded_.outside_.emplace(folded_.problem_, scale_);
    outside.share_results(network);  // the first layer is there if it begins with other states
    for (const Copy& copy : folded_.copies_) outside.fix(copy.variable);
    for (const EqualLayers::Layer& layer : layers_.layers) {
      for (const VariableId k : touched_.ids()) {
        if (own_[k] == 0 && !kind_of_[k].valid()) outside.fix(rest_of(layers_.same_in(layer, touched_[k])));
      }
    }
    outside.reduce(kInside, true);
    for (const Copy& copy : folded_.copies_) {
      if (outside.infeasible) break;
      const IdRange<ChoiceId> choices = folded_.problem_.choices_of(copy.variable);
      const IdVector<ChoiceId, Cost> costs = take_costs_of(outside, copy.variable, choices);
      std::ranges::transform(costs, network.nodes[copy.inside].costs.begin(),
                             [&](Cost cost) { return cost == kForbidden ? kInside : cost / scale_; });
    }
  }

  // The network of the outside is made already, so the costs of the variables that stay become factors.
  void take_factors(const Network& network, std::vector<Factor>& left) const {
    const auto add = [&](std::vector<VariableId> variables, const std::vector<Cost>& costs) {
      left.push_back({std::move(variables), std::make_shared<const std::vector<Cost>>(costs)});
    };
    for (const VariableId k : touched_.ids()) {
      if (network.nodes[k].alive) add({k}, network.nodes[k].costs);
    }
    for (const Pair& pair : network.pairs) {
      if (pair.alive) add({pair.from, pair.to}, pair.costs.costs());
    }
  }

  // A table over all choices of the variables that stay, and the remaining choices of those inside.
  CostTable spread(const Network& network, const Pair& pair) const {
    const auto choices = [&](VariableId k) {
      return own_[k] != 0 ? network.size(k) : one_.variables[k].size();
    };
    const auto place_of = [&](VariableId k, std::size_t c) {
      return own_[k] != 0 ? c : ir::offset_of(network.nodes[k].labels[c]);
    };
    std::vector<Cost> costs(choices(pair.from) * choices(pair.to), kForbidden);
    std::size_t next = 0;
    for (std::size_t i = 0; i < network.size(pair.from); ++i) {
      for (std::size_t j = 0; j < network.size(pair.to); ++j)
        costs[place_of(pair.from, i) * choices(pair.to) + place_of(pair.to, j)] = allowed(pair.costs[next++]);
    }
    return costs;
  }

  // Adds what one layer has left to the rest, for all layers.
  void add_layers(const Network& network, const std::vector<Factor>& left) {
    Problem& rest = folded_.problem_;
    std::vector<Edge> edges;
    for (const Pair& pair : network.pairs) {
      if (pair.alive && !copied_) edges.push_back({pair.from, pair.to, spread(network, pair)});
    }
    IdVector<VariableId, CostTable> own_costs(touched_.ids());  // of what is left inside
    for (const VariableId k : touched_.ids()) {
      if (own_[k] == 0 || !network.nodes[k].alive) continue;
      for (const Cost cost : network.nodes[k].costs) own_costs[k].edit().push_back(allowed(cost));
    }
    for (const EqualLayers::Layer& layer : layers_.layers) {
      IdVector<VariableId, VariableId>& variables = folded_.layers_.emplace_back();
      IdVector<VariableId, VariableId>& stays = folded_.rest_.emplace_back();
      for (const VariableId k : touched_.ids()) {
        const Place p = layers_.same_in(layer, touched_[k]);
        variables.push_back(places_.variable(p));
        const Node& node = network.nodes[k];
        if (own_[k] == 0 && node.alive) {
          stays.push_back(kind_of_[k].valid() ? kind_of_[k] : rest_of(p));
          if (!copied_) add_costs(node, rest.variables[stays.back()]);
        } else if (node.alive) {
          stays.push_back(rest.variables.end_id());
          rest.variables.push_back(own_costs[k]);
        } else {
          stays.push_back({});
        }
      }
      for (const Edge& edge : edges) rest.edges.push_back({stays[edge.from], stays[edge.to], edge.costs});
      for (const Factor& factor : left) {
        Factor& own_factor = folded_.factors_.emplace_back(factor);
        for (VariableId& variable : own_factor.variables) variable = stays[variable];
      }
      folded_.constant_ += network.constant;
    }
  }

  // Adds what a layer costs by the choice of a variable that stays.
  static void add_costs(const Node& node, CostTable& table) {
    std::vector<Cost>& costs = table.edit();
    std::vector<Cost> more(costs.size(), kForbidden);
    for (std::size_t c = 0; c < node.labels.size(); ++c)
      more[ir::offset_of(node.labels[c])] = allowed(node.costs[c]);
    for (std::size_t c = 0; c < costs.size(); ++c) add(costs[c], more[c]);
  }

  const Problem& problem_;
  const Places& places_;
  const EqualLayers& layers_;
  const EqualLayers::Layer& model_;
  FoldedProblem folded_;
  Problem one_;
  IdVector<VariableId, Place> touched_;       // of the variables of `one`
  IdVector<VariableId, char> own_;            // whether it is inside
  IdVector<VariableId, Kinds> kinds_;         // of what is outside of all layers
  IdVector<VariableId, VariableId> kind_of_;  // the variable of these kinds in the rest
  bool copied_ = false;
  Cost scale_ = 1;
};

std::optional<FoldedProblem> FoldedProblem::folded(const Problem& problem, std::int64_t table,
                                                   std::optional<Cost> copied_total) {
  if (!problem.usages.empty() || !problem.limits.empty()) return std::nullopt;
  const Places places(problem);
  const EqualLayers layers = equal_layers(places);
  if (layers.layers.empty()) return std::nullopt;
  return Folding(problem, places, layers).run(table, copied_total);
}

Assignment FoldedProblem::restore(const Assignment& choice,
                                  std::vector<std::vector<ChoiceId>>* copied) const {
  Assignment whole(number_.ids());
  for (const VariableId v : number_.ids()) {
    if (number_[v].valid()) whole[v] = choice[number_[v]];
  }
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const IdVector<VariableId, VariableId>&variables = layers_[l], &rest = rest_[l];
    Assignment own(variables.ids());
    for (const VariableId k : own.ids()) {
      if (!rest[k].valid()) continue;
      const ChoiceId chosen = choice[rest[k]];
      own[k] = whole[variables[k]].valid() ? chosen : inside_->nodes[k].labels[ir::offset_of(chosen)];
    }
    inside_->restore(own);
    if (copied != nullptr) {
      std::vector<ChoiceId>& kinds = copied->emplace_back();
      for (const Copy& copy : copies_) kinds.push_back(own[copy.inside]);
    }
    for (const VariableId k : own.ids()) {
      ChoiceId& known = whole[variables[k]];
      if (!known.valid()) known = own[k];
    }
  }
  return whole;
}

}  // namespace braid::solver
